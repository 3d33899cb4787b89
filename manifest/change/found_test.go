package change

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podstead/podstead/internal/objectwrite"
	"github.com/podstead/podstead/manifest"
)

// Find reads the directory again only if it has changed, and never misses a change.
func TestFindReadsAChangedDirectoryOnly(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	write := func(value string) {
		t.Helper()
		if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: "+value+"}\n"),
			0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := NewWriter(Config{Path: dir, Node: "n1", Mode: manifest.ModeStrict})
	ref := objectwrite.Ref{Kind: manifest.KindConfigMap, Namespace: "default", Name: "c"}
	is := func(want string) {
		t.Helper()
		d, err := w.Find(ref)
		if err != nil || d.Object["data"].(map[string]any)["k"] != want {
			t.Fatalf("%v, %v; want %s", d.Object["data"], err, want)
		}
	}
	write("v0")
	for range 20 { // a file that has just changed may change again within the same tick
		is("v0")
		write("v1")
		is("v1")
		write("v0")
	}
	is("v0")
	// The time of a change cannot be set back: wait until it is old.
	deadline := time.Now().Add(time.Minute)
	for w.found.set == nil && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
		is("v0")
	}
	reads := w.found.reads
	for range 20 {
		is("v0")
	}
	if w.found.reads != reads {
		t.Errorf("an unchanged directory was read %d times", w.found.reads-reads)
	}
	write("v2")
	is("v2")
	w.found.forget()
	is("v2")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Find(ref); err == nil {
		t.Error("a removed file is still found")
	}
}
