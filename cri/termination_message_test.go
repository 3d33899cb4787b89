package cri

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func TestTerminationMessage(t *testing.T) {
	const limit = maxTerminationMessage
	for name, c := range map[string]struct{ in, want string }{
		"empty":       {"", ""},
		"short":       {"bye\n", "bye\n"},
		"full":        {strings.Repeat("a", limit), strings.Repeat("a", limit)},
		"long":        {"lost" + strings.Repeat("b", limit), strings.Repeat("b", limit)},
		"not UTF-8":   {"a\xff\xfeb", "a\uFFFDb"},
		"cut rune":    {"x€" + strings.Repeat("c", limit-1), strings.Repeat("c", limit-1)},
		"whole rune":  {"x€" + strings.Repeat("c", limit-3), "€" + strings.Repeat("c", limit-3)},
		"continued":   {"\x80\x80\x80\x80\x80", "\uFFFD"},
		"NUL":         {"a\x00b", "a\x00b"},
		"cut garbage": {strings.Repeat("\x80", limit+5), "\uFFFD"},
	} {
		path := filepath.Join(t.TempDir(), "message")
		if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := terminationMessage(path)
		if err != nil || got != c.want || !utf8.ValidString(got) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// TestTerminationMessageFollowsNoLinks replaces the file with what a malicious
// container could put there.
func TestTerminationMessageFollowsNoLinks(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Symlink(secret, at("link")),
		os.Symlink(at("nothing"), at("dangling")),
		unix.Mkfifo(at("fifo"), 0o600),
		os.Mkdir(at("dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"link", "dangling", "fifo", "dir", "absent"}
	switch err := unix.Mknod(at("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); { // /dev/zero
	case err == nil:
		names = append(names, "device")
	case !errors.Is(err, unix.EPERM): // only root can create it
		t.Fatal(err)
	}
	for _, name := range names {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got, err := terminationMessage(at(name)); got != "" || err == nil {
				t.Errorf("%s: %q %v", name, got, err)
			}
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatalf("%s: reading blocks", name)
		}
	}
}
