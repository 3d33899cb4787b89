package volume

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/fdpath"
)

func TestOpenBeneath(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(top, "a/b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(top, "a/file"), []byte("inside"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"near": "a/file", "a/b/back": "../file", "through": "a/b/../file", "chain": "near",
		"up": "..", "a/b/far": "../../../x", "absolute": outside, "root": "/", "self": "self", "proc": "/proc/self/root",
	} {
		if err := os.Symlink(target, filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]error{
		"a/file": nil, "near": nil, "a/b/back": nil, "through": nil, "chain": nil, "./a//file": nil,
		"..": errEscapes, "a/../..": errEscapes, "up": errEscapes, "up/x": errEscapes, "a/b/far": errEscapes,
		"absolute": errEscapes, "root/etc": errEscapes, "/etc": errEscapes, "proc/etc": errEscapes,
		"self": unix.ELOOP, "missing": unix.ENOENT, "a/file/x": unix.ENOTDIR,
	} {
		f, err := openBeneath(top, path, nil)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		if err != nil {
			continue
		}
		in, err := os.Open(fdpath.Path(int(f.Fd())))
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(in); err != nil || string(data) != "inside" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
		_, _ = in.Close(), f.Close()
	}
}

func TestOpenBeneathCreatesDirectories(t *testing.T) {
	before := len(openFiles(t))
	top := t.TempDir()
	mode := uint32(0o2775)
	f, err := openBeneath(top, "a/b", &mode)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := os.Stat(filepath.Join(top, "a/b"))
	if err != nil || info.Mode() != os.ModeDir|os.ModeSetgid|0o775 {
		t.Errorf("%v, %v, want the volume's mode whatever the umask", info.Mode(), err)
	}
	// A dangling link points to the directory to create, but never outside.
	if err := os.Symlink("../../out", filepath.Join(top, "dangling")); err != nil {
		t.Fatal(err)
	}
	if _, err := openBeneath(top, "dangling/x", &mode); !errors.Is(err, errEscapes) {
		t.Errorf("%v, want an escape", err)
	}
	if left := len(openFiles(t)); left > before+5 {
		t.Errorf("%d descriptors are open, %d were before", left, before)
	}
}

func openFiles(t *testing.T) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
