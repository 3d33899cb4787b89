package architecture

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// testModules are the requirements of go.mod that only tests use. Another one belongs in a
// module of its own below test, because scanners count each requirement as part of the product.
var testModules = []string{"github.com/google/go-cmp"}

// unwantedModules are never required, not even by tests or indirectly: images are made and
// served by test/image, and logs are written with log/slog.
var unwantedModules = []string{
	"github.com/docker", "github.com/google/go-containerregistry",
	"github.com/sirupsen/logrus", "github.com/stretchr/testify", "gotest.tools",
}

// goOutput returns what the Go tool prints.
func goOutput(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
	return out
}

// The product's module requires what the program links, and one library for tests.
func TestRequiredModulesAreLinked(t *testing.T) {
	linked := map[string]bool{}
	for module := range strings.FieldsSeq(
		string(goOutput(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", module+"/cmd/podstead"))) {
		linked[module] = true
	}
	if !linked["google.golang.org/grpc"] {
		t.Fatalf("go list does not report what is linked: %v", linked)
	}
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	root := strings.TrimSpace(string(goOutput(t, "list", "-m", "-f", "{{.GoMod}}")))
	if err := json.Unmarshal(goOutput(t, "mod", "edit", "-json", root), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Require) < 10 {
		t.Fatalf("%s requires only %v", root, file.Require)
	}
	for _, r := range file.Require {
		if !r.Indirect && !linked[r.Path] && !slices.Contains(testModules, r.Path) {
			t.Errorf("go.mod requires %s, which the program does not link: use it in a module of its own below test", r.Path)
		}
		if slices.ContainsFunc(unwantedModules, func(m string) bool { return below(r.Path, m) }) {
			t.Errorf("go.mod requires %s, which the product's module must not", r.Path)
		}
	}
	for path := range linked {
		if slices.ContainsFunc(unwantedModules, func(m string) bool { return below(path, m) }) {
			t.Errorf("the program links %s", path)
		}
	}
}
