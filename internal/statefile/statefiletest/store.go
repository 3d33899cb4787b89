package statefiletest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/unwritten"
)

// Store is a store of state files, and one change of its content.
type Store struct {
	// Files are the file that changes, below a directory, and its second copy if it has one.
	Files []string
	// Before is a file of the test data: the content of Files as a released podstead has written it. After is that to
	// which Change changes it, byte for byte; empty if it differs each time, or the files are removed.
	Before, After string
	// Other are further files that Change needs, and test data with their content.
	Other map[string]string
	// Read starts the store and returns what it knows as a text, or why it refuses to start or to be used.
	Read func(t *testing.T, dir string, disk statefile.Disk) (string, error)
	// Change starts the store and changes its content. The error is that of the write, if the store reports it.
	Change func(t *testing.T, dir string, disk statefile.Disk) error
	// Old and New are what Read returns before and after Change, and None what it returns without a file.
	Old, New, None string
	// Rules are those of the Format.
	Rules Rules
	// Tolerant is a store that reads the intact part of a damaged file.
	Tolerant bool
	// Strict is a store that refuses to start with a file that cannot be read, whatever its policy is.
	Strict bool
	// Silent is a store whose Change goes on although it could not be written, and returns no error.
	Silent bool
}

// Rules are what a Format reports of its files.
type Rules struct {
	damaged, newer    statefile.Policy
	versioned, repeat bool
	limit             int64
	durability        statefile.Durability
}

// RulesOf returns what a Format reports of its files.
func RulesOf[T any](f *statefile.Format[T]) Rules {
	return Rules{damaged: f.Damaged, newer: f.Newer, versioned: f.Version > 0, repeat: f.Repeat, limit: f.Limit,
		durability: f.Durability}
}

// Run tests a store: it reads what a released podstead has written, writes the same, and has the old or the new content
// whatever happens to the disk or to the daemon meanwhile; and it follows its policies.
func (s Store) Run(t *testing.T) {
	t.Run("format", s.format)
	t.Run("missing", s.missing)
	t.Run("faults", s.faults)
	if s.Rules.repeat {
		t.Run("repeated", s.repeated)
	}
	t.Run("unreadable", s.unreadable)
	damaged := map[string][]byte{"empty": {}, "text": []byte("{"),
		"too large": bytes.Repeat([]byte(" "), int(s.Rules.limit)+1)}
	if s.Tolerant {
		damaged = nil
	}
	for name, data := range damaged {
		t.Run("damaged/"+name, func(t *testing.T) { s.unusable(t, data, s.Rules.damaged, statefile.SuffixDamaged) })
	}
	if s.Rules.versioned {
		old := s.testdata(t, s.Before)
		newer := regexp.MustCompile(`"version": ?[0-9]+`).ReplaceAll(old, []byte(`"version":99`))
		if bytes.Equal(old, newer) {
			t.Fatal("the test data has no version")
		}
		t.Run("newer", func(t *testing.T) { s.unusable(t, newer, s.Rules.newer, statefile.SuffixNewer) })
	}
}

func (s Store) testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// directory returns a directory with the content that a released podstead has written.
func (s Store) directory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range s.Files {
		write(t, filepath.Join(dir, name), s.testdata(t, s.Before))
	}
	for name, from := range s.Other {
		write(t, filepath.Join(dir, name), s.testdata(t, from))
	}
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// read returns what the store knows, on a disk without a fault.
func (s Store) read(t *testing.T, dir string) string {
	t.Helper()
	text, err := s.Read(t, dir, statefile.Disk{})
	if err != nil {
		t.Errorf("the store cannot be read: %v", err)
	}
	return text
}

func (s Store) format(t *testing.T) {
	dir := s.directory(t)
	if got := s.read(t, dir); got != s.Old {
		t.Errorf("the released file is read as\n%s\nwant\n%s", got, s.Old)
	}
	if err := s.Change(t, dir, statefile.Disk{}); err != nil {
		t.Fatal(err)
	}
	if got := s.read(t, dir); got != s.New {
		t.Errorf("after the change there is\n%s\nwant\n%s", got, s.New)
	}
	if s.After == "" {
		return
	}
	for _, name := range s.Files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, s.testdata(t, s.After)) {
			t.Errorf("%s is\n%s\n%v, want that of %s", name, got, err, s.After)
		}
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}

func (s Store) missing(t *testing.T) {
	if got := s.read(t, t.TempDir()); got != s.None {
		t.Errorf("without a file there is\n%s\nwant\n%s", got, s.None)
	}
}

func (s Store) faults(t *testing.T) {
	clean := New("", Killed, 0)
	if err := s.Change(t, s.directory(t), statefile.Disk{Operations: clean}); err != nil {
		t.Fatal(err)
	}
	if len(clean.operations) == 0 {
		t.Fatal("nothing is written")
	}
	for _, fault := range []Fault{Killed, Torn, Fails, Full, Cut, Lost} {
		for i, operation := range clean.operations {
			if fault == Torn && !strings.HasPrefix(operation, "write ") {
				continue
			}
			dir := s.directory(t)
			disk := New(dir, fault, i+1)
			err := s.Change(t, dir, statefile.Disk{Operations: disk})
			got, what := s.read(t, dir), fmt.Sprintf("%s %d of %d, %s", fault, i+1, len(clean.operations), operation)
			switch {
			case got != s.Old && got != s.New:
				t.Errorf("%s: there is\n%s\nwant\n%s\nor\n%s", what, got, s.Old, s.New)
			case err == nil && !s.Silent && got != s.New && !(fault == Lost && s.Rules.durability != statefile.Durable):
				t.Errorf("%s: the change has succeeded, and is lost", what)
			}
		}
	}
	t.Logf("%d operations: %q", len(clean.operations), clean.operations)
}

// repeated: what could not be written is reported, and written when the disk takes it.
func (s Store) repeated(t *testing.T) {
	for _, reason := range []error{syscall.ENOSPC, syscall.EROFS} {
		synctest.Test(t, func(t *testing.T) {
			files, dir := unwritten.New(), s.directory(t)
			disk := New(dir, Full, 1)
			disk.Err = reason
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- files.Run(ctx, func([]unwritten.File) {}) }()
			_ = s.Change(t, dir, statefile.Disk{Operations: disk, Unwritten: files})
			if list := files.List(); len(list) != 1 || !errors.Is(list[0].Err, reason) ||
				list[0].Path != filepath.Join(dir, s.Files[0]) {
				t.Errorf("reported: %v", list)
			}
			disk.mu.Lock()
			disk.at = 0
			disk.mu.Unlock()
			time.Sleep(11 * time.Second)
			synctest.Wait()
			if got := s.read(t, dir); got != s.New || len(files.List()) > 0 {
				t.Errorf("after the disk has recovered there is\n%s\nwant\n%s; reported: %v", got, s.New, files.List())
			}
			cancel()
			<-ended
		})
	}
}

// unreadable is a disk whose files cannot be read.
type unreadable struct{ statefile.OS }

func (unreadable) Read(path string, _ int64) ([]byte, error) {
	return nil, &fs.PathError{Op: "read", Path: path, Err: syscall.EACCES}
}

// A file that cannot be read is not a damaged one.
func (s Store) unreadable(t *testing.T) {
	dir := s.directory(t)
	got, err := s.Read(t, dir, statefile.Disk{Operations: unreadable{}})
	if refused := err != nil; refused != (s.Strict || s.Rules.damaged == statefile.Refuse) || !refused && got != s.None {
		t.Errorf("a file that cannot be read gives\n%s, %v", got, err)
	}
	for _, name := range s.Files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); !bytes.Equal(got, s.testdata(t, s.Before)) {
			t.Errorf("it is now\n%s, %v", got, err)
		}
	}
}

// unusable: a file with this content is left or moved aside.
func (s Store) unusable(t *testing.T, data []byte, policy statefile.Policy, suffix string) {
	dir := s.directory(t)
	for _, name := range s.Files {
		write(t, filepath.Join(dir, name), data)
	}
	got, err := s.Read(t, dir, statefile.Disk{})
	if policy == statefile.Refuse {
		if err == nil {
			t.Errorf("the store accepts it: %s", got)
		}
		if err := s.Change(t, dir, statefile.Disk{}); err == nil && !s.Silent {
			t.Error("the change has succeeded")
		}
		for _, name := range s.Files {
			if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%s is now\n%s, %v", name, got, err)
			}
		}
		return
	}
	if err != nil || got != s.None {
		t.Errorf("the store has\n%s, %v, want\n%s", got, err, s.None)
	}
	for _, name := range s.Files {
		if got, err := os.ReadFile(filepath.Join(dir, name+suffix)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s was not moved aside: %v", name, err)
		}
	}
	if err := s.Change(t, dir, statefile.Disk{}); err != nil {
		t.Error(err)
	}
}
