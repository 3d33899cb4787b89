package config

import (
	"fmt"
	"path/filepath"
	"strings"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// VerifyKeys are the files of the public keys that verify manifests.
type VerifyKeys struct {
	// files are the values of the flag or field.
	files []string
	// BySource are the absolute paths of the files for each source; see For.
	BySource map[podinfo.Source][]string
}

// keySources are the sources whose manifests can be verified, by their names in the flag.
var keySources = map[string]podinfo.Source{"file": podinfo.SourceFile, "url": podinfo.SourceHTTP,
	"oci": podinfo.SourceOCI}

// For returns the files of the keys for a source; none accepts unsigned manifests.
func (k *VerifyKeys) For(source podinfo.Source) []string { return k.BySource[source] }

// splitKey returns the source that a value names, empty for all, and the path.
func splitKey(value string) (name, path string) {
	if prefix, rest, ok := strings.Cut(value, "="); ok && keySources[prefix] != "" {
		return prefix, rest
	}
	return "", value
}

// read reads the values, with paths that are relative to the file.
func (k *VerifyKeys) read(n node) bool {
	values, ok := n.texts()
	if !ok {
		return false
	}
	k.files = nil
	for _, value := range values {
		name, path := splitKey(value)
		path = pathIn(n.dir(), path)
		if name != "" {
			path = name + "=" + path
		}
		k.files = append(k.files, path)
	}
	return true
}

// check sets the paths.
func (k *VerifyKeys) check(s *setting) {
	k.BySource = map[podinfo.Source][]string{}
	for _, value := range k.files {
		name, path := splitKey(value)
		if path == "" {
			s.fail("=%s: must be FILE, file=FILE, url=FILE or oci=FILE", value)
			continue
		}
		path, err := filepath.Abs(path)
		if err != nil {
			s.fail(": failed to make %q absolute: %w", path, err)
			continue
		}
		for kind, source := range keySources {
			if name == "" || name == kind {
				k.BySource[source] = append(k.BySource[source], path)
			}
		}
	}
}

// unused returns notices about keys of sources that are not used.
func (m *Manifests) unused() (notices []string) {
	used := map[string]bool{"file": m.Path != "", "url": m.URL != "", "oci": len(m.OCI) > 0}
	for _, value := range m.Keys.files {
		if name, _ := splitKey(value); name != "" && !used[name] {
			notices = append(notices, fmt.Sprintf("--manifest-verify-key=%s has no effect: there is no source of that kind",
				value))
		}
	}
	return notices
}
