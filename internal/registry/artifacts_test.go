package registry

import (
	"strings"
	"testing"
)

func TestParseArtifacts(t *testing.T) {
	if got, err := ParseArtifacts([]string{"oci://registry.test/a:v1", "localhost/b",
		"10.0.0.1:5000/c@sha256:" + strings.Repeat("a", 64)}); err != nil || len(got) != 3 || got[1].Tag != "latest" {
		t.Errorf("%v (%v)", got, err)
	}
	for text, want := range map[string]string{
		"fleet/web:v1":                "has no registry",
		"web":                         "has no registry",
		"https://registry.test/web":   "is not a valid reference",
		"registry.test/Web":           "is not a valid reference",
		"registry.test/first:another": "is given twice",
	} {
		if _, err := ParseArtifacts([]string{"registry.test/first:v1", text}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// A password in a reference does not get into logs.
func TestParseArtifactsWithLogin(t *testing.T) {
	_, err := ParseArtifacts([]string{"oci://bob:hunter2@registry.test/fleet/web:v1"})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "user name") {
		t.Errorf("got %v", err)
	}
}
