package ipam

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Only empty reservations of an earlier boot are removed, under the lock of the network.
func TestFreeEmpty(t *testing.T) {
	dir := t.TempDir()
	boot := time.Now().Add(-time.Hour)
	write := func(name, content string, at time.Time) string {
		t.Helper()
		return writeAt(t, filepath.Join(dir, name), content, at)
	}
	before, after := boot.Add(-time.Minute), boot.Add(time.Minute)
	want := []string{write("pods/10.88.0.2", "", before), write("pods/fd00::2", "", before)}
	kept := []string{
		write("pods/10.88.0.3", "abc\r\neth0", before), write("pods/10.88.0.4", "", after),
		write("pods/lock", "", before), write("pods/last_reserved_ip.0", "", before), write("other/10.1.0.2", "", before),
	}
	locked := write("busy/lock", "", before)
	kept = append(kept, write("busy/10.2.0.2", "", before))
	lock, err := os.Open(locked)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "pods/10.88.0.9")
	if err := os.Symlink(kept[0], link); err != nil {
		t.Fatal(err)
	}
	kept = append(kept, link)

	expectRemoved(t, FreeEmpty, dir, boot, want, kept)
}
