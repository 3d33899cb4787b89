package architecture

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The linker leaves out methods that nothing calls. One call of a method by a name, or by a number, that it cannot know
// keeps every exported method of every type: 5 MB. So does text/template, which some modules import and nothing may
// use.
func TestNoMethodIsCalledByName(t *testing.T) {
	for _, pattern := range []string{`\.MethodByName\(`, `reflect\.(TypeOf|ValueOf|TypeFor)\b.*\.Method\(`,
		`"(text|html)/template"`} {
		cmd := exec.Command("git", "grep", "-nE", pattern, "--", "*.go", ":!*_test.go", ":!test", ":!build",
			":!supervisor/noderesources/noderesourcestest")
		cmd.Dir = filepath.Join("..", "..")
		// git grep fails if it finds nothing.
		if out, _ := cmd.Output(); strings.TrimSpace(string(out)) != "" {
			t.Errorf("these keep every method of every type in the program:\n%s", out)
		}
	}
}
