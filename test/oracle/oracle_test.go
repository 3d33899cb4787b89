package oracle

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// corpus reads the manifests of testdata by file name and number. A file contains
// one pod, or several fragments separated by ---.
func corpus(t *testing.T) map[string]*v1.Pod {
	t.Helper()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata contains no manifests: %v", err)
	}
	pods := map[string]*v1.Pod{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, document := range documents(filepath.Base(file), string(data)) {
			pod := &v1.Pod{}
			if err := yaml.UnmarshalStrict([]byte(document), pod); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			pods[name] = pod
		}
	}
	return pods
}

func TestCompare(t *testing.T) {
	if n := len(corpus(t)); n < 60 {
		t.Errorf("the corpus has %d pods, want at least 60", n)
	}
	t.Run("corpus", func(t *testing.T) {
		for name, pod := range corpus(t) {
			t.Run(name, func(t *testing.T) { compare(t, pod) })
		}
	})
	t.Run("mutated", func(t *testing.T) { fuzz(t, mutations, mutate(corpus(t))) })
	t.Run("filled", func(t *testing.T) { fuzz(t, fillings, fill) })
	if t.Failed() {
		return // A listed difference may not have had a chance to occur.
	}
	for _, reason := range reasons() {
		if occurred[reason] == 0 {
			t.Errorf("listed difference no longer occurs: %s", reason)
		}
	}
}

func compare(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if difference := compareDefaults(t, pod); difference != "" {
		t.Errorf("%s", difference)
	}
	if difference := compareFaults(t, pod); difference != "" {
		t.Errorf("%s", difference)
	}
}

func reasons() []string {
	var all []string
	for _, d := range pathDifferences {
		all = append(all, d.reason)
	}
	for _, d := range append(oursOnly, theirsOnly...) {
		all = append(all, d.reason)
	}
	for _, d := range defaultDifferences {
		all = append(all, d.reason)
	}
	return all
}

// documents splits a file of several manifests, naming each file#number.
func documents(file, data string) map[string]string {
	all := map[string]string{}
	for i, document := range strings.Split(data, "\n---\n") {
		all[fmt.Sprintf("%s#%d", file, i+1)] = document
	}
	return all
}
