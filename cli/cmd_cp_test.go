package cli

import (
	"testing"
)

func TestParseLocation(t *testing.T) {
	for text, want := range map[string]location{
		"web:/etc/hosts":    {pod: "web", path: "/etc/hosts"},
		"prod/web:data/x:y": {namespace: "prod", pod: "web", path: "data/x:y"},
		"./a:b":             {path: "./a:b"},
		"/a:b":              {path: "/a:b"},
		"plain":             {path: "plain"},
	} {
		if got, err := parseLocation(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ":x", "web:", "a/b/c:x", "a/:x"} {
		if got, err := parseLocation(text); err == nil || Code(err) != ExitUsage {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}
