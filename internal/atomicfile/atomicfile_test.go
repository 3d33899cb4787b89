package atomicfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	// What a crash left, longer than what comes.
	if err := os.WriteFile(path+Suffix, []byte(strings.Repeat("x", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "another one", ""} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != Mode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// Whoever has the old file open goes on reading that.
func TestReplaceLeavesTheOldFileToItsReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Replace(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 8)
	if n, _ := f.Read(old); string(old[:n]) != "old" {
		t.Errorf("the old file reads %q", old[:n])
	}
}

// A write that fails leaves the old file, and nothing beside it.
func TestReplaceThatFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record.json")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	if _, err := os.Lstat(path + Suffix); !os.IsNotExist(err) {
		t.Errorf("a file is left: %v", err)
	}
	if err := Replace(filepath.Join(dir, "none", "record.json"), nil); err == nil {
		t.Error("a file was written into no folder")
	}
	// Nothing can be written where a folder is.
	path = filepath.Join(dir, "kept.json")
	if err := Replace(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+Suffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("new")); err == nil {
		t.Error("it was written, nobody knows where")
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file holds %q", got)
	}
}

// What is at the temporary name has no say in where the content goes, or in who
// may read it.
func TestReplaceHeedsNothingAtTheTemporaryName(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "key"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("untouched"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path+Suffix); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("secret")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(other); string(got) != "untouched" {
		t.Errorf("the file that was linked holds %q", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != Mode {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
