package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// TempSpace is where the content of archives is stored while they are loaded.
type TempSpace struct {
	// Dir is the directory, which is created.
	Dir string
	// Reserved returns how many bytes of the file system of Dir, which has a capacity in bytes, stay free, and the
	// setting that says so, for messages. nil, and an empty setting, reserve no more than minReserved.
	Reserved func(capacity int64) (bytes int64, setting string)

	// usage is statfs(2) except in tests.
	usage func(*os.File) (free, capacity int64, err error)
}

const (
	// spaceInterval is the number of stored bytes after which the free space is checked
	// again.
	spaceInterval = 16 << 20
	// minReserved are the bytes that stay free in any case, and minReservedShare the part of the file system, as a
	// divisor: without evictions, or with a lower threshold, the disk must still have space for the state of podstead,
	// which has some megabytes, and for the logs of pods until the archive is loaded.
	minReserved, minReservedShare = 64 << 20, 100
)

// ErrNoSpace is wrapped by the error for an archive that is too large for the disk.
var ErrNoSpace = errors.New("not enough free space")

// create returns a new file without a name: however this process ends, its space is freed.
func (s TempSpace) create() (*os.File, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("failed to store the archive temporarily: %w", err)
	}
	file, err := os.CreateTemp(s.Dir, "images-*.tar")
	if err != nil {
		return nil, fmt.Errorf("failed to store the archive temporarily: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// boundedFile is a file that fails when it would use the reserved space.
type boundedFile struct {
	*os.File
	space TempSpace
	// unchecked is the number of bytes that may be written before the next check.
	unchecked int64
	// reserved are the bytes that stay free, and reason why, empty before the first check.
	reserved int64
	reason   string
}

func (f *boundedFile) Write(b []byte) (int, error) {
	if f.unchecked -= int64(len(b)); f.unchecked < 0 {
		if err := f.check(); err != nil {
			return 0, err
		}
		f.unchecked = spaceInterval - int64(len(b))
	}
	return f.File.Write(b)
}

// check returns an error if what is written until the next check would use the reserved space.
func (f *boundedFile) check() error {
	usage := f.space.usage
	if usage == nil {
		usage = fileSystemUsage
	}
	free, capacity, err := usage(f.File)
	if err != nil {
		return err
	}
	if f.reason == "" {
		f.reserved, f.reason = f.space.reserve(capacity)
	}
	if free-spaceInterval >= f.reserved {
		return nil
	}
	return fmt.Errorf("%w: the file system of %s has %d MiB free, of which %d MiB stay free, %s; remove images with "+
		"podstead images prune, or load fewer images at once",
		ErrNoSpace, filepath.Dir(f.Name()), free>>20, f.reserved>>20, f.reason)
}

// reserve returns the bytes that stay free, and why.
func (s TempSpace) reserve(capacity int64) (reserved int64, reason string) {
	reserved, reason = max(minReserved, capacity/minReservedShare), "for the files of podstead and of pods"
	if s.Reserved == nil {
		return reserved, reason
	}
	if bytes, setting := s.Reserved(capacity); bytes > reserved {
		return bytes, fmt.Sprintf("because with less pods are evicted (%s)", setting)
	}
	return reserved, reason
}

func fileSystemUsage(f *os.File) (free, capacity int64, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}
