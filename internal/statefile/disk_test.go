package statefile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/internal/statefile"
)

func replace(path, data string) error {
	return statefile.Disk{}.Replace(path, []byte(data), 0o600, statefile.Durable)
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	// A crash left a longer temporary file.
	if err := os.WriteFile(path+statefile.Suffix, []byte(strings.Repeat("x", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "another one", ""} {
		if err := replace(path, text); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v; want %q", got, err, text)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := (statefile.Disk{}).Replace(path, nil, 0o640, statefile.Durable); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A reader that has the old file open keeps reading it.
func TestReplaceKeepsTheOldFileForItsReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.json")
	if err := replace(path, "old"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := replace(path, "new"); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 8)
	if n, _ := f.Read(old); string(old[:n]) != "old" {
		t.Errorf("the old file reads %q", old[:n])
	}
}

// A failed write leaves the old file and no other.
func TestReplaceFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "record.json")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, "new"); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Lstat(path + statefile.Suffix); !os.IsNotExist(err) {
		t.Errorf("the temporary file is left: %v", err)
	}
	if err := replace(filepath.Join(dir, "none", "record.json"), ""); err == nil {
		t.Error("a file was written into a missing directory")
	}
	// A directory is at the temporary name.
	path = filepath.Join(dir, "kept.json")
	if err := replace(path, "old"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path+statefile.Suffix, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, "new"); err == nil {
		t.Error("the write succeeded although the temporary name is a directory")
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file contains %q", got)
	}
}

// A file at the temporary name affects neither where the content is written nor
// its mode.
func TestReplaceIgnoresTheFileAtTheTemporaryName(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "key"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("untouched"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, path+statefile.Suffix); err != nil {
		t.Fatal(err)
	}
	if err := replace(path, "secret"); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(other); string(got) != "untouched" {
		t.Errorf("the target of the link contains %q", got)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
