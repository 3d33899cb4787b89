package edit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/manifest"
)

const rounds = 1000

// counter is a ConfigMap that counts the rounds of one writer.
func counter(name string, n int) string {
	return fmt.Sprintf("kind: ConfigMap\nmetadata: {name: %s}\ndata: {count: \"%d\"}\n", name, n)
}

func counterRef(name string) manifest.ObjectRef {
	return manifest.ObjectRef{Kind: "ConfigMap", Namespace: "default", Name: name}
}

// countOf returns the count in a directory.
func countOf(t *testing.T, d *Directory, name string) int {
	t.Helper()
	found, err := d.Find(counterRef(name))
	if err != nil {
		t.Error(err)
		return 0
	}
	data, _ := found.Value["data"].(map[string]any)
	text, _ := data["count"].(string)
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Error(err)
	}
	return n
}

// increment counts one more, as often as another writer is faster.
func increment(t *testing.T, path, name string) (conflicts int) {
	for {
		d, err := Read(path)
		if err != nil {
			t.Error(err)
			return
		}
		docs, _ := Documents("-", []byte(counter(name, countOf(t, d, name)+1)))
		if _, err := d.Write(docs[0], ""); err != nil {
			t.Error(err)
			return
		}
		err = d.Commit(t.Context())
		if err == nil {
			return conflicts
		}
		if !errors.Is(err, ErrChanged) {
			t.Error(err)
			return
		}
		conflicts++
	}
}

// Two writers change the same file, 1,000 times each. Every change is there at the end: each
// writer learns of each change of the other.
func TestTwoWritersLoseNothing(t *testing.T) {
	dir := in(t, map[string]string{"x.yaml": counter("a", 0) + "---\n" + counter("b", 0)})
	var both sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		both.Go(func() {
			for range rounds {
				increment(t, dir, name)
			}
		})
	}
	both.Wait()
	d := read(t, dir)
	if a, b := countOf(t, d, "a"), countOf(t, d, "b"); a != rounds || b != rounds {
		t.Errorf("counted %d and %d, want %d", a, b, rounds)
	}
}

// An editor replaces the file without a lock and without a comparison. None of what it writes
// is lost to a writer of this package.
func TestEditorLosesNothing(t *testing.T) {
	dir := in(t, map[string]string{"x.yaml": counter("a", 0) + "---\n" + counter("hand", 0)})
	path := filepath.Join(dir, "x.yaml")
	done := make(chan struct{})
	var writer sync.WaitGroup
	conflicts := 0
	writer.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				conflicts += increment(t, dir, "a")
			}
		}
	})
	for n := range rounds {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		own, _, _ := strings.Cut(string(before), "---\n")
		text := own + "---\n" + counter("hand", n+1)
		if err := os.WriteFile(filepath.Join(dir, ".swap"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, ".swap"), path); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	writer.Wait()
	if n := countOf(t, read(t, dir), "hand"); n != rounds {
		t.Errorf("the last content of the editor is %d, want %d", n, rounds)
	}
	t.Logf("%d conflicts", conflicts)
}

func TestConflictsAreReported(t *testing.T) {
	change := func(d *Directory) error {
		_, err := d.Write(documents(t, pod("web", "a:2"))[0], "web.yaml")
		return errors.Join(err, d.Commit(t.Context()))
	}
	for name, c := range map[string]struct {
		files  map[string]string
		change func(path string) error
		want   string
	}{
		"changed": {map[string]string{"web.yaml": pod("web", "a:1")},
			func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) }, "mine"},
		"removed": {map[string]string{"web.yaml": pod("web", "a:1")}, os.Remove, ""},
		"created": {nil, func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) }, "mine"},
	} {
		dir := in(t, c.files)
		path := filepath.Join(dir, "web.yaml")
		d := read(t, dir)
		if err := c.change(path); err != nil {
			t.Fatal(err)
		}
		if err := change(d); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if got, _ := os.ReadFile(path); string(got) != c.want {
			t.Errorf("%s: the file is %q, want %q", name, got, c.want)
		}
		if c.files != nil && name == "changed" {
			d := read(t, in(t, c.files))
			f := d.files[d.names[0]]
			if _, err := d.Remove(web); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f.path, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := d.Commit(t.Context()); !errors.Is(err, ErrChanged) || content(t, f.path) != "mine" {
				t.Errorf("removal: %v", err)
			}
		}
	}
}

// What an editor writes between the comparison and the swap is put back.
func TestSwapIsUndoneForALateChange(t *testing.T) {
	dir := in(t, map[string]string{"x.yaml": "late"})
	path, tmp := filepath.Join(dir, "x.yaml"), filepath.Join(dir, ".x.yaml.podstead.tmp")
	for name, mine := range map[string]FileChange{
		"write":  {Path: path, Before: []byte("read"), After: []byte("new")},
		"remove": {Path: path, Before: []byte("read")},
	} {
		d := read(t, dir)
		if err := d.write(mine); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v", name, err)
		}
		if got := content(t, path); got != "late" {
			t.Errorf("%s: the file is %q", name, got)
		}
		if _, err := os.Lstat(tmp); err == nil {
			t.Errorf("%s: %s is left", name, tmp)
		}
	}
	// A program that has the file open may write at any time.
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := read(t, dir).write(FileChange{Path: path, Before: []byte("late"), After: []byte("new")}); !errors.Is(err,
		ErrChanged) || content(t, path) != "late" {
		t.Errorf("while a program has the file open: %v, %q", err, content(t, path))
	}
}

// The content of another writer that cannot be put back stays in a file that no later change
// removes, and the error reports it.
func TestKeptContent(t *testing.T) {
	dir := t.TempDir()
	c := FileChange{Path: filepath.Join(dir, "a.yaml"), Before: []byte(counter("a", 1)), After: []byte(counter("a", 2))}
	tmp := filepath.Join(dir, ".a.yaml.podstead.tmp")
	for name, content := range map[string]string{c.Path: counter("a", 2), tmp: counter("theirs", 7)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := swapBack(c, tmp, func() error { return errors.New("the disk fails") })
	if !errors.Is(err, ErrKept) || !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), tmp+".saved") {
		t.Errorf("%v", err)
	}
	increment(t, dir, "a")
	if data, err := os.ReadFile(tmp + ".saved"); err != nil || string(data) != counter("theirs", 7) {
		t.Errorf("%s, %v", data, err)
	}
}

// However often an editor writes while a change is taken back, the file has its newest content.
func TestNewestContentOfAnEditorStays(t *testing.T) {
	for writes := range 5 {
		dir := t.TempDir()
		c := FileChange{Path: filepath.Join(dir, "a.yaml"), Before: []byte("read"), After: []byte("ours")}
		tmp := filepath.Join(dir, ".a.yaml.podstead.tmp")
		write := func(path, content string) {
			if err := errors.Join(os.WriteFile(path+".swap", []byte(content), 0o600),
				os.Rename(path+".swap", path)); err != nil {
				t.Fatal(err)
			}
		}
		write(c.Path, "ours")
		write(tmp, "editor 0")
		n := 0
		err := swapBack(c, tmp, func() error {
			if n < writes {
				n++
				write(c.Path, fmt.Sprint("editor ", n))
			}
			return unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, c.Path, unix.RENAME_EXCHANGE)
		})
		if data, readErr := os.ReadFile(c.Path); string(data) != fmt.Sprint("editor ", writes) ||
			!errors.Is(err, ErrChanged) || errors.Is(err, ErrKept) != (writes > 0) {
			t.Errorf("%d writes: %q (%v), %v", writes, data, readErr, err)
		}
		if _, left := os.Lstat(tmp); left == nil {
			t.Errorf("%d writes: %s is left", writes, tmp)
		}
	}
}

// Every user can open, and so lock, a directory of manifests. That does not stop a change.
func TestLockOfAnotherUserStopsNoChange(t *testing.T) {
	dir := in(t, map[string]string{"a.yaml": counter("a", 0)})
	theirs, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if err := unix.Flock(int(theirs.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	increment(t, dir, "a")
	if n := countOf(t, read(t, dir), "a"); n != 1 {
		t.Errorf("the count is %d", n)
	}
}

// A Secret gets into no file that others can read, also not one that exists. If one is in it already, its mode is that
// of its author, as for everything else.
func TestModeOfAFileWithASecret(t *testing.T) {
	secret := func(name string) string {
		return "---\napiVersion: v1\nkind: Secret\nmetadata: {name: " + name + "}\nstringData: {k: v}\n"
	}
	for what, c := range map[string]struct {
		before, added string
		mode, want    os.FileMode
	}{
		"new":              {"", secret("a"), 0, 0o600},
		"first Secret":     {counter("x", 1), secret("a"), 0o644, 0o600},
		"stricter":         {counter("x", 1), secret("a"), 0o400, 0o400},
		"second Secret":    {secret("b"), secret("a"), 0o640, 0o640},
		"other object":     {counter("x", 1), counter("z", 1), 0o644, 0o644},
		"two at once":      {counter("x", 1), secret("a") + secret("b"), 0o664, 0o600},
		"new, two objects": {"", counter("x", 1) + secret("a"), 0, 0o600},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "m.yaml")
			if c.before != "" {
				if err := errors.Join(os.WriteFile(path, []byte(c.before), 0o600), os.Chmod(path, c.mode)); err != nil {
					t.Fatal(err)
				}
			}
			d, err := Read(dir)
			if err != nil {
				t.Fatal(err)
			}
			docs, faults := Documents("m.yaml", []byte(c.added))
			if faults.Fatal() {
				t.Fatal(faults)
			}
			for _, doc := range docs {
				if _, err := d.Write(doc, "m.yaml"); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode().Perm() != c.want {
				t.Errorf("mode %o, want %o, %v", info.Mode().Perm(), c.want, err)
			}
		})
	}
}
