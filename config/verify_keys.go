package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/manifest"
)

// VerifyKeys are the files of the public keys that verify manifests.
type VerifyKeys struct {
	// files are the values of the flag.
	files []string
	// BySource are the absolute paths of the files for each source; see For.
	BySource map[manifest.Source][]string
}

// keySources are the sources whose manifests can be verified, by their names in the flag.
var keySources = map[string]manifest.Source{"file": manifest.SourceFile, "url": manifest.SourceHTTP, "oci": manifest.SourceOCI}

func (k *VerifyKeys) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&k.files, "manifest-verify-key", nil, "PEM `file` of ECDSA P-256 public keys that verify the signatures of manifests, made by cosign: of all sources, or with the prefix file=, url= or oci= of one; can be repeated, and any of the keys suffices")
}

// For returns the files of the keys for a source; none accepts unsigned manifests.
func (k *VerifyKeys) For(source manifest.Source) []string { return k.BySource[source] }

// splitKey returns the source that a value names, empty for all, and the path.
func splitKey(value string) (name, path string) {
	if prefix, rest, ok := strings.Cut(value, "="); ok && keySources[prefix] != "" {
		return prefix, rest
	}
	return "", value
}

// keyIn returns a value whose relative path is relative to a directory.
func keyIn(dir, value string) string {
	name, path := splitKey(value)
	if path == "" || filepath.IsAbs(path) {
		return value
	}
	path = filepath.Join(dir, path)
	if name != "" {
		path = name + "=" + path
	}
	return path
}

// check sets the paths. The notices are about keys of sources that are not used.
func (k *VerifyKeys) check(m *Manifests) (notices []string, err error) {
	used := map[string]bool{"file": m.Path != "", "url": m.URL != "", "oci": len(m.OCI) > 0}
	k.BySource = map[manifest.Source][]string{}
	for _, value := range k.files {
		name, path := splitKey(value)
		if path == "" {
			return nil, fmt.Errorf("--manifest-verify-key=%s: must be FILE, file=FILE, url=FILE or oci=FILE", value)
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, fmt.Errorf("failed to make %q absolute: %w", path, err)
		}
		if name != "" && !used[name] {
			notices = append(notices, fmt.Sprintf("--manifest-verify-key=%s has no effect: there is no source of that kind", value))
		}
		for kind, source := range keySources {
			if name == "" || name == kind {
				k.BySource[source] = append(k.BySource[source], path)
			}
		}
	}
	return notices, nil
}
