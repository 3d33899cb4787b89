package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstead/podstead/internal/statefile"
)

// nodeNameFile is the file that stores the node name, below the root directory.
const nodeNameFile = "node-name"

// nodeNameFormat is the file of the name: one line.
var nodeNameFormat = statefile.Format[string]{
	Name: "node-name", Limit: 1 << 10, Damaged: statefile.Refuse, Newer: statefile.Refuse, DirMode: 0o700, Repeat: true,
	Encode: func(name string) ([]byte, error) { return []byte(name + "\n"), nil },
	Decode: func(text []byte) (string, error) {
		name := strings.TrimSpace(string(text))
		if err := validateNodeName(name); err != nil {
			return "", fmt.Errorf("it contains %q: %w; run once: podstead run --hostname-override=NAME", name, err)
		}
		return name, nil
	},
}

// ResolveNodeName returns the name of this node. The name is part of every
// static pod's name and UID, so that it is determined once: flag (the value of
// --hostname-override) takes precedence and is stored, else the stored name is
// used, else the hostname is used and stored. As in the kubelet, the name is
// trimmed and in lower case.
//
// A hostname that later differs from the stored name changes nothing; the
// warning reports it, and how to change the name. The error is for a name that
// is not a DNS-1123 subdomain, and for a file that cannot be read: a guess would
// give every pod another identity. A name that cannot be stored is used all the
// same, and the write is repeated.
func ResolveNodeName(rootDir, flag string, hostname func() (string, error), disk statefile.Disk) (name, warning string,
	err error) {
	path := filepath.Join(rootDir, nodeNameFile)
	file := nodeNameFormat.File(path, disk)
	remembered, err := file.Load()
	if flag != "" {
		if err != nil {
			file = nodeNameFormat.File(path, disk) // a flag replaces a damaged file
		}
		name = normalizeNodeName(flag)
		if err := validateNodeName(name); err != nil {
			return "", "", fmt.Errorf("--hostname-override=%q: %w", flag, err)
		}
		_ = file.Save(name) // repeated
		return name, "", nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", fmt.Errorf("cannot read the node name: %w", err)
	}

	host, err := hostname()
	host = normalizeNodeName(host)
	if remembered != "" {
		if err == nil && host != remembered {
			warning = fmt.Sprintf("the hostname is now %q, but this node keeps the name %q, which is part of the names and "+
				"UIDs of its pods; "+
				"to replace every pod under the new name, run once: podstead run --hostname-override=%s", host, remembered, host)
		}
		return remembered, warning, nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot determine the node name: %w; set it with --hostname-override=NAME", err)
	}
	if err := validateNodeName(host); err != nil {
		return "", "", fmt.Errorf("cannot use the hostname %q as the node name: %w; set one with --hostname-override=NAME",
			host, err)
	}
	_ = file.Save(host) // repeated
	return host, "", nil
}

func normalizeNodeName(name string) string {
	return strings.ToLower(strings.TrimSpace(name))
}

func validateNodeName(name string) error {
	if problems := utilvalidation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("not a valid node name: %s", strings.Join(problems, "; "))
	}
	return nil
}
