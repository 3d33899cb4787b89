package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstead/podstead/manifest"
)

// Keys are of all sources or of one; in a file their paths are relative to it.
func TestVerifyKeys(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	text := "apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\nmanifestVerifyKeys: [all.pub, " +
		"file=keys/file.pub, url=/url.pub]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, notices, err := complete(t, "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Join(dir, "all.pub")
	for source, want := range map[manifest.Source][]string{
		manifest.SourceFile: {all, filepath.Join(dir, "keys/file.pub")}, manifest.SourceHTTP: {all, "/url.pub"},
		manifest.SourceOCI: {all}, manifest.SourceAPI: nil,
	} {
		if got := o.Manifests.Keys.For(source); !slices.Equal(got, want) {
			t.Errorf("keys of %s: %v, want %v", source, got, want)
		}
	}
	if !slices.ContainsFunc(notices, func(n string) bool { return strings.Contains(n, "url=/url.pub has no effect") }) {
		t.Errorf("notices: %v", notices)
	}
	if _, _, err := complete(t, "--manifest-verify-key", "oci="); err == nil ||
		!strings.Contains(err.Error(), "must be FILE, file=FILE, url=FILE or oci=FILE") {
		t.Errorf("error: %v", err)
	}
}
