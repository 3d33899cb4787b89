package volume

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/podstead/podstead/internal/fsgroup"
)

// listed returns the names in a directory, those with a time as "..stamp".
func listed(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, "..2") {
			name = "..stamp"
		}
		names = append(names, name)
	}
	return names
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestWriteFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(files payload, want bool) string {
		t.Helper()
		wrote, err := writeFiles(t.Context(), dir, files, fsgroup.Group{})
		if err != nil || wrote != want {
			t.Fatalf("wrote %v, %v, want %v", wrote, err, want)
		}
		stamp, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		return stamp
	}
	first := write(payload{"a": {data: []byte("1"), mode: 0o640}, "sub/b": {data: []byte("2"), mode: 0o400},
		"sub/deep/c": {mode: 0o604}}, true)
	if got := listed(t, dir); !slices.Equal(got, []string{"..stamp", "..data", "a", "sub"}) &&
		!slices.Equal(got, []string{"..data", "..stamp", "a", "sub"}) {
		t.Errorf("in the volume: %v", got)
	}
	if target, _ := os.Readlink(filepath.Join(dir, "a")); target != "..data/a" {
		t.Errorf("a points to %q", target)
	}
	if content(t, dir+"/a") != "1" || content(t, dir+"/sub/b") != "2" {
		t.Error("wrong contents")
	}
	for name, want := range map[string]os.FileMode{"a": 0o640, "sub/b": 0o400, "sub/deep/c": 0o604, "sub": 0o755,
		"sub/deep": 0o755, "..data/.": 0o755} {
		if got := permissions(t, filepath.Join(dir, name)); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
	// Nothing changed: nothing is written.
	if again := write(payload{"a": {data: []byte("1"), mode: 0o640}, "sub/b": {data: []byte("2"), mode: 0o400},
		"sub/deep/c": {mode: 0o604}}, false); again != first {
		t.Errorf("written again: %s, %s", first, again)
	}
	// A changed mode is a change; files that were opened before stay
	// readable.
	old, err := os.Open(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	write(payload{"a": {data: []byte("1"), mode: 0o600}, "sub": {data: []byte("now a file"), mode: 0o600}}, true)
	if got := listed(t, dir); len(got) != 4 {
		t.Errorf("in the volume: %v", got)
	}
	if content(t, dir+"/sub") != "now a file" {
		t.Error("sub is not the new file")
	}
	write(payload{}, true)
	if got := listed(t, dir); len(got) != 2 {
		t.Errorf("in an empty volume: %v", got)
	}
}

func TestWriteFilesAfterACrash(t *testing.T) {
	dir := t.TempDir()
	files := payload{"a": {data: []byte("1"), mode: 0o644}}
	if _, err := writeFiles(t.Context(), dir, files, fsgroup.Group{}); err != nil {
		t.Fatal(err)
	}
	// A crash may leave an incomplete directory, a link that is not yet
	// replaced, and links of files that are not yet created or not yet
	// removed.
	if err := os.MkdirAll(filepath.Join(dir, "..2020_01_01_00_00_00.1/half"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{dataLinkNew: "..2020_01_01_00_00_00.1", "gone": "..data/gone"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	// A subpath that a container mounted before the file existed.
	if err := os.MkdirAll(filepath.Join(dir, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if wrote, err := writeFiles(t.Context(), dir, files, fsgroup.Group{}); err != nil || wrote {
		t.Fatal(wrote, err)
	}
	if got := listed(t, dir); len(got) != 4 || content(t, dir+"/a") != "1" {
		t.Errorf("in the volume: %v", got)
	}
	files["b"] = file{data: []byte("2"), mode: 0o644}
	if _, err := writeFiles(t.Context(), dir, files, fsgroup.Group{}); err != nil || content(t, dir+"/b") != "2" {
		t.Error(err)
	}
}

func TestWriteFilesRefusesNamesThatLeadOut(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "../x", "a/../../x", "..data", "..x", "a//b", "./a"} {
		if _, err := writeFiles(t.Context(), t.TempDir(), payload{name: {}}, fsgroup.Group{}); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
