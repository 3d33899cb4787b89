package cri

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLogNames(t *testing.T) {
	if got, want := LogDirectory("/var/log/pods", "ns", "web-n", "u-1"), "/var/log/pods/ns_web-n_u-1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := LogPath("c", 3), "c/3.log"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := LogLink("ns", "web-n", "c", "abc"), "web-n_ns_c-abc.log"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	long := LogLink(strings.Repeat("n", 63), strings.Repeat("p", 253), "c", strings.Repeat("0", 64))
	if len(long) != 255 || !strings.HasSuffix(long, ".log") {
		t.Errorf("got %q with %d bytes, want 255 that end in .log", long, len(long))
	}
}

func TestNextLogNumber(t *testing.T) {
	for _, tc := range []struct {
		files []string
		want  int
	}{
		{nil, 0},
		{[]string{"0.log"}, 1},
		{[]string{"9.log", "10.log", "2.log"}, 11},
		{[]string{"0.log", "3.log.20260102-030405.gz"}, 4},
		{[]string{"x.log", "7.txt", "-5.log", ".log"}, 0},
	} {
		dir := t.TempDir()
		for _, name := range tc.files {
			writeFile(t, filepath.Join(dir, name))
		}
		if got, err := nextLogNumber(dir); err != nil || got != tc.want {
			t.Errorf("%q: got %d, %v, want %d", tc.files, got, err, tc.want)
		}
	}
	if got, err := nextLogNumber(filepath.Join(t.TempDir(), "none")); got != 0 || err != nil {
		t.Errorf("no directory: got %d, %v, want 0", got, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file)
	if _, err := nextLogNumber(file); err == nil {
		t.Error("a file in place of the directory is no error")
	}
}

func TestLinkLog(t *testing.T) {
	root := t.TempDir()
	links, log := filepath.Join(root, "containers"), filepath.Join(root, "0.log")
	if err := linkLog(links, "l", log); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(links, "l")); err == nil {
		t.Error("a link was made to a log that does not exist")
	}
	writeFile(t, log)
	other := filepath.Join(root, "1.log")
	writeFile(t, other)
	for _, target := range []string{log, log, other} {
		if err := linkLog(links, "l", target); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.Readlink(filepath.Join(links, "l")); got != target {
			t.Errorf("the link points to %q, want %q", got, target)
		}
	}
}

func TestRemoveLogs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1.log", "1.log.20260102-030405", "1.log.20260101-030405.gz", "11.log", "2.log"} {
		writeFile(t, filepath.Join(dir, name))
	}
	removeLogs(filepath.Join(dir, "1.log"))
	if got, want := fileNames(t, dir), []string{"11.log", "2.log"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	removeLogs(filepath.Join(dir, "none", "1.log"))
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
