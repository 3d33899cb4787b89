package architecture

import (
	"os"
	"os/exec"
	"path"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Dependabot updates every module of the tree.
func TestModulesAreUpdated(t *testing.T) {
	data, err := os.ReadFile("../../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Updates []struct {
			PackageEcosystem string `json:"package-ecosystem"`
			Directories      []string
		}
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	updated := map[string]bool{}
	for _, u := range config.Updates {
		for _, dir := range u.Directories {
			updated[dir] = u.PackageEcosystem == "gomod"
		}
	}
	out, err := exec.Command("git", "-C", "../..", "ls-files", "go.mod", "*/go.mod").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(string(out))
	if len(files) < 2 {
		t.Fatalf("the tree has only the modules %v", files)
	}
	for _, file := range files {
		if dir := path.Join("/", path.Dir(file)); !updated[dir] {
			t.Errorf(".github/dependabot.yml does not update the module in %s", dir)
		}
	}
}
