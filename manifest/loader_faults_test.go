package manifest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateGolden = flag.Bool("update-manifest-golden", false, "rewrite the golden files of the loader")

// checkGolden compares with a file under testdata, or writes it.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); if that is intended, run with -update-manifest-golden:\n%s", path, diff)
	}
}

func loadFile(t *testing.T, path string, mode Mode) ([]Document, Faults) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return podsOf(NewLoader("Node1", mode).Load(LoadRequest{Source: SourceFile, Unit: filepath.Base(path), Data: data}))
}

// TestFaultTexts pins the text of every kind of fault: it is the first thing of
// podstead that many users will read.
func TestFaultTexts(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	var all strings.Builder
	for _, file := range files {
		documents, faults := loadFile(t, file, ModeStrict)
		if !faults.Fatal() || len(documents) > 0 {
			t.Errorf("%s is accepted: %d documents, faults %v", file, len(documents), faults)
		}
		for _, fault := range faults {
			if strings.Contains(fault.Error(), "\n") {
				t.Errorf("%s: more than one line: %q", file, fault.Error())
			}
		}
		all.WriteString(faults.Error() + "\n\n")
	}
	checkGolden(t, "faults.txt", all.String())
}

// A template that was not rendered is YAML with mappings as keys.
func TestUnrenderedTemplate(t *testing.T) {
	text := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{ .Values.name }}\n"
	_, faults := NewLoader("Node1", ModeStrict).Load(LoadRequest{Source: SourceFile, Unit: "web.yaml", Data: []byte(text)})
	if got := faults.Error(); !strings.HasPrefix(got, "web.yaml:4: ") || !strings.Contains(got, "render the template") ||
		strings.Contains(got, "interface") {
		t.Errorf("got %s", got)
	}
}
