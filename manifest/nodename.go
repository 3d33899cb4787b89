package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/podstead/podstead/internal/unwritten"
)

// nodeNameFile is the file that stores the node name, below the root directory.
const nodeNameFile = "node-name"

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
// same; files repeats the write.
func ResolveNodeName(rootDir, flag string, hostname func() (string, error), files *unwritten.Files) (name, warning string, err error) {
	path := filepath.Join(rootDir, nodeNameFile)
	remembered, err := savedNodeName(path)
	if flag != "" {
		// A flag replaces a damaged file.
		name = normalizeNodeName(flag)
		if err := validateNodeName(name); err != nil {
			return "", "", fmt.Errorf("--hostname-override=%q: %w", flag, err)
		}
		saveNodeName(path, name, remembered, files)
		return name, "", nil
	}
	if err != nil {
		return "", "", err
	}

	host, err := hostname()
	host = normalizeNodeName(host)
	if remembered != "" {
		if err == nil && host != remembered {
			warning = fmt.Sprintf("the hostname is now %q, but this node keeps the name %q, which is part of the names and UIDs of its pods; "+
				"to replace every pod under the new name, run once: podstead run --hostname-override=%s", host, remembered, host)
		}
		return remembered, warning, nil
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot determine the node name: %w; set it with --hostname-override=NAME", err)
	}
	if err := validateNodeName(host); err != nil {
		return "", "", fmt.Errorf("cannot use the hostname %q as the node name: %w; set one with --hostname-override=NAME", host, err)
	}
	saveNodeName(path, host, "", files)
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

// savedNodeName returns an empty name if none is stored yet.
func savedNodeName(path string) (string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the node name: %w", err)
	}
	name := strings.TrimSpace(string(data))
	if err := validateNodeName(name); err != nil {
		return "", fmt.Errorf("%s contains %q: %w; run once: podstead run --hostname-override=NAME", path, name, err)
	}
	return name, nil
}

func saveNodeName(path, name, remembered string, files *unwritten.Files) {
	if name == remembered {
		return
	}
	_ = files.Write(path, func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		return replaceFile(path, []byte(name+"\n"))
	})
}
