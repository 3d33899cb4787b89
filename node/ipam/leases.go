package ipam

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Directory is where host-local keeps its reservations unless a CNI configuration reports
// otherwise: a directory for each network.
const Directory = "/var/lib/cni/networks"

// FreeEmpty removes the reservations in dir that are empty and were written before boot, and
// returns their paths. A network whose lock another process holds is left to the next call.
// A directory that does not exist has none. Errors of single networks are joined, after the
// others were examined.
func FreeEmpty(dir string, boot time.Time) (freed []string, err error) {
	networks, err := readDir(dir)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, network := range networks {
		if !network.IsDir() {
			continue
		}
		paths, err := freeNetwork(filepath.Join(dir, network.Name()), boot)
		freed, errs = append(freed, paths...), append(errs, err)
	}
	return freed, errors.Join(errs...)
}

// freeNetwork frees the addresses of one network.
func freeNetwork(dir string, boot time.Time) (freed []string, err error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // not a directory of host-local
	}
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	switch err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, nil
	case err != nil:
		return nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	return removeEmpty(dir, files, boot, func(name string) bool {
		_, err := netip.ParseAddr(name)
		return err == nil
	})
}
