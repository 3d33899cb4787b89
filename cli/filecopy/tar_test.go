package filecopy

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// archive returns a tar archive of entries NAME, NAME/, NAME -> TARGET (symlink) or
// NAME = TARGET (hard link). Each file contains its own name.
func archive(t testing.TB, entries ...string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e, Mode: 0o640, Typeflag: tar.TypeReg, Size: int64(len(e))}
		name, target, link := strings.Cut(e, " -> ")
		switch {
		case link:
			h = &tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}
		case strings.Contains(e, " = "):
			name, target, _ := strings.Cut(e, " = ")
			h = &tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeLink}
		case strings.HasSuffix(e, "/"):
			h = &tar.Header{Name: e, Mode: 0o750, Typeflag: tar.TypeDir}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(e)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// No archive can cause a write outside the destination.
func TestUnpackStaysInside(t *testing.T) {
	for _, entries := range [][]string{
		{"site/", "../escaped", "site/../../escaped", "/escaped", "site/../escaped"},
		{"site/", "site/out -> ..", "site/out/escaped"},
		{"site/", "site/out -> /tmp", "site/deep/", "site/deep/out -> ../..", "site/deep/out/escaped"},
		{"site/", "site/a -> b", "site/b -> ../..", "site/a/escaped"},
		{"site/", "site/hard = ../secret", "site/hard"},
		{"site -> ../escaped", "site/escaped"},
		{"site -> ..", "site"},
		{"..", "../escaped"},
		{"site", "site/escaped", "escaped"},
	} {
		dir := filepath.Join(t.TempDir(), "outer")
		to := filepath.Join(dir, "in", "dest")
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		var warnings []string
		_ = unpack(archive(t, entries...), to,
			func(f string, args ...any) { warnings = append(warnings, fmt.Sprintf(f, args...)) })
		err := filepath.Walk(filepath.Dir(dir), func(p string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() && p != filepath.Join(dir, "secret") && p != to && !strings.HasPrefix(p, to+"/") {
				t.Errorf("%q: %s was written", entries, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(filepath.Join(dir, "secret")); string(text) != "secret" {
			t.Errorf("%q: the file outside is now %q", entries, text)
		}
	}
}

// No link that is left leads out of the destination, even if the targets look harmless.
func TestUnpackLeavesNoLinkToTheOutside(t *testing.T) {
	for name, entries := range map[string][]string{
		"through a link":           {"site/", "site/a/b/c/", "site/a/b/c/up -> ../../..", "site/out -> a/b/c/up/../secret"},
		"before the link exists":   {"site/", "site/a/b/c/", "site/out -> a/b/c/up/../secret", "site/a/b/c/up -> ../../.."},
		"in a link to a directory": {"site/", "site/a/b/c/", "site/a/b/c/up -> ../../..", "site/a/b/c/up/out -> ../secret"},
		"a hard link of a link": {"site/", "site/a/", "site/a/secret", "site/a/b/", "site/a/b/l -> ../secret",
			"site/out = site/a/b/l"},
		"through two links": {"site/", "site/d/e/", "site/d/e/x -> ../..", "site/d/y -> e/x",
			"site/out -> d/y/../secret"},
		"through what may exist":     {"site/", "site/out -> later/../../secret", "site/out2 -> a/later/../../../secret"},
		"of a directory to the root": {"site/", "site/d/", "site/d/r -> ..", "site/out -> d/r/../.."},
		"in an archive with an end": {"site/", "site/a/b/c/", "site/a/b/c/up -> ../../..", "site/out -> a/b/c/up/../secret",
			"site/a/b/c/up", "site/a"},
	} {
		dir := t.TempDir()
		to := filepath.Join(dir, "dest")
		if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		// Fails for some of the archives; what is left counts.
		_ = unpack(archive(t, entries...), to, func(string, ...any) {})
		err := filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.Type() != os.ModeSymlink {
				return err
			}
			target, _ := os.Readlink(path)
			real, err := filepath.EvalSymlinks(path)
			if err != nil && (!os.IsNotExist(err) || !plainTarget(target)) {
				t.Errorf("%s: %s -> %s is left: %v", name, path, target, err)
			} else if err == nil && real != to && !strings.HasPrefix(real, to+"/") {
				t.Errorf("%s: %s -> %s leads to %s", name, path, target, real)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Links that stay inside are kept, also those whose targets do not exist.
func TestUnpackKeepsDanglingLinks(t *testing.T) {
	to := filepath.Join(t.TempDir(), "dest")
	warn := func(f string, args ...any) { t.Errorf(f, args...) }
	if err := unpack(archive(t, "site/", "site/d/e/", "site/d/e/l -> ../../none", "site/m -> none/x",
		"site/n -> d/e/../e"), to, warn); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"d/e/l": "../../none", "m": "none/x", "n": "d/e/../e"} {
		if got, err := os.Readlink(filepath.Join(to, name)); got != want {
			t.Errorf("%s links to %q, %v", name, got, err)
		}
	}
}

// Names of a container cannot control the terminal or imitate other messages.
func TestWarningsAreVisible(t *testing.T) {
	const evil = "\x1b]0;title\x07\x9b2J\r\npodstead: copied"
	var warnings strings.Builder
	warn := func(f string, args ...any) { fmt.Fprintf(&warnings, f+"\n", args...) }
	_ = unpack(archive(t, "site/", "../"+evil, "site/"+evil+" -> /"+evil, "site/"+evil+" = "+evil,
		"site/a -> a"+evil+"/../../.."), filepath.Join(t.TempDir(), "dest"), warn)
	if text := warnings.String(); strings.Count(text, "\n") != 4 || strings.ContainsAny(text, "\x1b\x07\r") ||
		strings.Contains(text, "\x9b") {
		t.Errorf("%q", text)
	}
}

// FuzzUnpack unpacks arbitrary archives. Nothing outside the destination may be changed, and
// no link that leads there may be left.
func FuzzUnpack(f *testing.F) {
	for _, entries := range [][]string{
		{"site/", "site/a", "site/l -> a", "site/h = site/a"},
		{"site/", "site/a/b/", "site/a/b/up -> ../..", "site/out -> a/b/up/../x"}, {"site"}, {"site -> x"},
	} {
		f.Add(archive(f, entries...).Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		to := filepath.Join(dir, "dest")
		_ = unpack(bytes.NewReader(data), to, func(string, ...any) {})
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 1 {
			t.Errorf("%v, %v", entries, err)
		}
		_ = filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Type() == os.ModeSymlink {
				if real, err := filepath.EvalSymlinks(path); err == nil && real != to && !strings.HasPrefix(real, to+"/") {
					t.Errorf("%q leads to %q", path, real)
				}
			}
			return nil
		})
	})
}

func TestUnpackKeepsLinks(t *testing.T) {
	to := filepath.Join(t.TempDir(), "dest")
	warn := func(f string, args ...any) { t.Errorf(f, args...) }
	if err := unpack(archive(t, "site/", "site/a", "site/deep/", "site/deep/up -> ../a", "site/hard = site/a"), to,
		warn); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "deep/up", "hard"} {
		if text, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(text) != "site/a" {
			t.Errorf("%s contains %q, %v", name, text, err)
		}
	}
	if info, err := os.Stat(filepath.Join(to, "deep")); err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("mode of the directory: %v, %v", info.Mode(), err)
	}
	// Unpack again over the existing files.
	if err := unpack(archive(t, "site/", "site/a", "site/deep/", "site/deep/up -> ../a"), to, warn); err != nil {
		t.Error(err)
	}
}

func TestPackAndUnpackRoundTrip(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.MkdirAll(filepath.Join(from, "locked"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // otherwise only root could remove it
		_, _ = os.Chmod(filepath.Join(from, "locked"), 0o755), os.Chmod(filepath.Join(to, "locked"), 0o755)
	})
	if err := os.WriteFile(filepath.Join(from, "locked", "f"), []byte("content"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(from, "locked"), 0o555); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := pack(&b, from, "to"); err != nil {
		t.Fatal(err)
	}
	if err := unpack(&b, to, func(f string, args ...any) { t.Errorf(f, args...) }); err != nil {
		t.Fatal(err)
	}
	file, err := os.Stat(filepath.Join(to, "locked", "f"))
	dir, err2 := os.Stat(filepath.Join(to, "locked"))
	if err != nil || err2 != nil || file.Mode().Perm() != 0o400 || dir.Mode().Perm() != 0o555 {
		t.Errorf("%v %v, %v %v", file, err, dir, err2)
	}
}

// A copy that delivers no data leaves the existing file as it is.
func TestLateFileKeepsContentUntilFirstWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("old text"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &lateFile{path: path}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old text" {
		t.Errorf("file contains %q", got)
	}
	for _, part := range []string{"", "new", " text"} {
		if n, err := f.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "new text" {
		t.Errorf("file contains %q", got)
	}
}

func TestCopyReportsStoppedContainer(t *testing.T) {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	pod := &v1.Pod{Status: v1.PodStatus{
		InitContainerStatuses: []v1.ContainerStatus{{Name: "sidecar", State: running}},
		ContainerStatuses:     []v1.ContainerStatus{{Name: "up", State: running}, {Name: "down"}},
	}}
	pod.Name = "web-edge"
	for name, want := range map[string]bool{"sidecar": false, "up": false, "unknown": false, "down": true} {
		err := (&Container{Pod: pod, Name: name}).notRunning()
		if (err != nil) != want || want && !strings.Contains(err.Error(), `"down" in pod "web-edge" is not running`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
