package boundedfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full, large := write("full", "12345"), write("large", "123456")
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.Symlink(full, link), unix.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		want string
		err  error
	}{
		"at the limit":    {full, "12345", nil},
		"above the limit": {large, "", ErrTooLarge},
		"symbolic link":   {link, "", unix.ELOOP},
		// Without O_NONBLOCK this case would wait forever.
		"FIFO":      {fifo, "", ErrNotRegular},
		"directory": {dir, "", ErrNotRegular},
		"device":    {"/dev/zero", "", ErrNotRegular},
		"missing":   {filepath.Join(dir, "missing"), "", os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(c.path, 5)
			if string(got) != c.want || !errors.Is(err, c.err) {
				t.Errorf("Read = %q, %v, want %q, %v", got, err, c.want, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), c.path) {
				t.Errorf("error %q does not name %s", err, c.path)
			}
		})
	}
	if got, err := Head(large, 3); string(got) != "123" || err != nil {
		t.Errorf("Head = %q, %v, want 123", got, err)
	}
}
