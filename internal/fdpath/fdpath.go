package fdpath

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Open opens a file in a directory for reference only (O_PATH), a link itself.
func Open(dir int, name string) (int, error) {
	return Retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
}

// Chmod changes the mode of the file of an O_PATH descriptor. fchmod(2) does not accept these; the path in /proc leads
// to the same file.
func Chmod(fd int, mode uint32) error { return unix.Chmod(Path(fd), mode) }

// Path returns a path to the file of a descriptor of this process.
func Path(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// Mount returns the ID of the mount of a descriptor's file. The device number does not do: a bind mount of the same
// file system has the same one.
func Mount(fd int) (int, error) {
	data, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return 0, fmt.Errorf("failed to read the mount ID: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, errors.New("failed to read the mount ID: no mnt_id in /proc/self/fdinfo")
}

// Retry repeats a call that a signal has interrupted.
func Retry[T any](call func() (T, error)) (T, error) {
	for {
		v, err := call()
		if !errors.Is(err, unix.EINTR) {
			return v, err
		}
	}
}
