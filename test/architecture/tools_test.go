package architecture

import (
	"os"
	"strings"
	"testing"
)

// The programs of test/tools are built from the versions that the tests and their images name.
func TestVersionsOfToolsAgree(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	mod := read("../tools/go.mod")
	versions := map[string]string{}
	for line := range strings.Lines(read("../testbed/versions.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			versions[name] = value
		}
	}
	for name, module := range map[string]string{"KUBERNETES_VERSION": "k8s.io/kubernetes",
		"METRICS_SERVER_VERSION": "sigs.k8s.io/metrics-server"} {
		if want := "\t" + module + " " + versions[name] + "\n"; versions[name] == "" || !strings.Contains(mod, want) {
			t.Errorf("test/testbed/versions.env has %s=%s, and test/tools/go.mod has another version of %s", name,
				versions[name], module)
		}
	}
}
