package harness

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// RemoveFiles removes everything in a directory. It returns the errors, nil for what was removed.
func RemoveFiles(dir string) []error {
	var errs []error
	entries, err := os.ReadDir(dir)
	errs = append(errs, err)
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return errs
}

// AppendLine returns a command that appends a line to the event log.
func AppendLine(line string) string { return "echo " + line + " >> /v/events; " }

// WriteAll creates a directory and writes files into it, keyed by name.
func WriteAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// CopyFile copies a file, which everybody may then execute.
func CopyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
