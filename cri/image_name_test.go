package cri

import (
	"strings"
	"testing"
)

func TestImageName(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0123456789abcdef", 4)
	for image, want := range map[string]string{
		"nginx":                       "nginx:latest",
		"nginx:1.27":                  "nginx:1.27",
		"nginx" + digest:              "nginx" + digest,
		"nginx:1.27" + digest:         "nginx:1.27" + digest,
		"library/nginx":               "library/nginx:latest",
		"localhost:5000/a/b":          "localhost:5000/a/b:latest",
		"localhost:5000/a/b:c":        "localhost:5000/a/b:c",
		"registry.example/a_b/c.d":    "registry.example/a_b/c.d:latest",
		"[::1]:5000/a":                "[::1]:5000/a:latest",
		"Registry.Example/a":          "Registry.Example/a:latest",
		"a:" + strings.Repeat("t", 8): "a:tttttttt",
	} {
		if got, err := imageName(image); err != nil || got != want {
			t.Errorf("imageName(%q) = %q, %v, want %q", image, got, err, want)
		}
	}
	for _, image := range []string{
		"", " ", "UPPER", "a b", "a:", "a:b:c", "-a", "a//b", "http://registry.example/a",
		"a@sha256:123", "a:" + strings.Repeat("t", 129), strings.Repeat("0123456789abcdef", 4),
	} {
		if got, err := imageName(image); err == nil {
			t.Errorf("imageName(%q) = %q, want an error", image, got)
		}
	}
}
