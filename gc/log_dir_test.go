package gc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// A container with write access to its log directory cannot make rotation write to, read or
// remove files of the host.
func TestRotationFollowsNoLinks(t *testing.T) {
	const old = "0.log.20260101-000000.000"
	for name, c := range map[string]struct {
		attack func(t *testing.T, dir, victim string) error
		fails  bool
	}{
		"the temporary file is a link": {func(_ *testing.T, dir, victim string) error {
			return os.Symlink(victim, filepath.Join(dir, old+".gz.tmp"))
		}, true},
		"a dangling link": {func(t *testing.T, dir, _ string) error {
			return os.Symlink(filepath.Join(t.TempDir(), "new"), filepath.Join(dir, old+".gz.tmp"))
		}, true},
		"the rotated file is a link": {func(_ *testing.T, dir, victim string) error {
			return errors.Join(os.Remove(filepath.Join(dir, old)), os.Symlink(victim, filepath.Join(dir, old)))
		}, false},
		"the rotated file is a FIFO": {func(_ *testing.T, dir, _ string) error {
			return errors.Join(os.Remove(filepath.Join(dir, old)), unix.Mkfifo(filepath.Join(dir, old), 0o600))
		}, false},
		"the directory is a link": {func(_ *testing.T, dir, victim string) error {
			return errors.Join(os.RemoveAll(dir), os.Symlink(filepath.Dir(victim), dir))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			host, dir := t.TempDir(), filepath.Join(t.TempDir(), "pod/main")
			victim := filepath.Join(host, old)
			touch(t, victim)
			touch(t, filepath.Join(host, "0.log"))
			touch(t, filepath.Join(host, "0.log.20260202-000000.000"))
			for _, file := range []string{"0.log", old, "0.log.20260202-000000.000"} {
				touch(t, filepath.Join(dir, file))
			}
			if err := os.WriteFile(victim, []byte("of the host"), 0o600); err != nil {
				t.Fatal(err)
			}
			before := tree(t, host)
			if err := c.attack(t, dir, victim); err != nil {
				t.Fatal(err)
			}

			log := filepath.Join(dir, "0.log")
			compressed := compress(log, func() bool { return false })
			rotated := rotate(log, 2, now, func() error { return nil })
			if failed := errors.Join(compressed, rotated) != nil; failed != c.fails {
				t.Errorf("compress: %v, rotate: %v, want an error: %v", compressed, rotated, c.fails)
			}
			if text, err := os.ReadFile(victim); string(text) != "of the host" || err != nil {
				t.Errorf("the file of the host contains %q, %v", text, err)
			}
			if after := tree(t, host); after != before {
				t.Errorf("the host's directory contains %q, before %q", after, before)
			}
		})
	}
}

// A file that is replaced while it is compressed is not removed.
func TestReplacedLogIsNotRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pod/main")
	touch(t, filepath.Join(dir, "0.log"))
	d, err := openLogDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	file, err := d.open("0.log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := d.isFile("0.log", file); err != nil {
		t.Error(err)
	}
	if err := d.rename("0.log", "other"); err != nil {
		t.Fatal(err)
	}
	if err := d.isFile("0.log", file); !errors.Is(err, unix.ENOENT) {
		t.Errorf("isFile = %v for a missing file", err)
	}
	touch(t, filepath.Join(dir, "0.log"))
	if err := d.isFile("0.log", file); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("isFile = %v for a replaced file", err)
	}
}

// The termination message of a container that has ended is cut to what is shown of it.
func TestMessagesAreCut(t *testing.T) {
	dir := t.TempDir()
	large, small, running, link := filepath.Join(dir, "web/large"), filepath.Join(dir, "web/small"),
		filepath.Join(dir, "web/running"), filepath.Join(dir, "web/link")
	touch(t, large, small, running)
	text := strings.Repeat("x", 1<<20) + "the end"
	if err := errors.Join(os.WriteFile(large, []byte(text), 0o600), os.WriteFile(small, []byte("short"), 0o600),
		os.WriteFile(running, []byte(text), 0o600), os.Symlink(running, link)); err != nil {
		t.Fatal(err)
	}
	f := Files{Messages: func(types.UID) string { return dir }}
	f.sweepMessages("p", map[string]bool{large: true, small: true, running: false, link: true})
	for path, want := range map[string]string{large: text[len(text)-maxMessage:], small: "short", running: text} {
		if got, err := os.ReadFile(path); string(got) != want || err != nil {
			t.Errorf("%s has %d bytes, want %d (%v)", filepath.Base(path), len(got), len(want), err)
		}
	}
	f.CutMessages("p")
	if got, err := os.ReadFile(running); string(got) != text[len(text)-maxMessage:] || err != nil {
		t.Errorf("the message of the last container has %d bytes (%v)", len(got), err)
	}
}
