package containerlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// withoutInotify lets the kernel refuse each inotify instance with an error.
func withoutInotify(t *testing.T, err error) {
	t.Helper()
	newWatcher = func() (*fsnotify.Watcher, error) { return nil, err }
	t.Cleanup(func() { newWatcher = fsnotify.NewWatcher })
}

// All programs of root share 128 inotify instances: a log is followed without one, over a rotation
// and a restart too.
func TestFollowWithoutInotify(t *testing.T) {
	withoutInotify(t, os.NewSyscallError("inotify_init1", syscall.EMFILE))
	dir := t.TempDir()
	log := filepath.Join(dir, "0.log")
	write(t, log, full(1, "stdout", "a"))
	f := follow(t, dir, 0, Options{Tail: -1})
	f.await(t, "a\n")
	write(t, log, full(2, "stdout", "b"))
	f.await(t, "a\nb\n")
	if err := os.Rename(log, log+".20260131-120000"); err != nil {
		t.Fatal(err)
	}
	write(t, log, full(3, "stdout", "c"))
	f.await(t, "a\nb\nc\n")
	write(t, filepath.Join(dir, "1.log"), full(4, "stdout", "d"))
	f.await(t, "a\nb\nc\nd\n")
	if err := f.end(t); err != nil {
		t.Error(err)
	}
}

// Other errors are not taken for a limit.
func TestFollowErrors(t *testing.T) {
	withoutInotify(t, os.NewSyscallError("inotify_init1", syscall.ENOSYS))
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0.log"), full(1, "stdout", "a"))
	s, err := Open(t.Context(), Request{Dir: dir, Follow: &Follow{Ended: func() bool { return true }}})
	if s != nil || !errors.Is(err, syscall.ENOSYS) || !strings.HasPrefix(fmt.Sprint(err), "failed to follow the log: ") {
		t.Errorf("%v, %v", s, err)
	}
}
