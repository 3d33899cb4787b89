package boundedfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Errors of Read and Head, wrapped with the path.
var (
	// ErrTooLarge reports that a file is larger than the limit.
	ErrTooLarge = errors.New("file is too large")
	// ErrNotRegular reports a directory, FIFO, socket or device.
	ErrNotRegular = errors.New("not a regular file")
)

// Read returns the content of a regular file of at most limit bytes. It returns an
// error that wraps ErrTooLarge if the file has more, ErrNotRegular for what is not a
// regular file, and ELOOP for a symbolic link. It never waits for a writer.
func Read(path string, limit int64) ([]byte, error) {
	data, err := Head(path, limit+1)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes: %w", path, limit, ErrTooLarge)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

// Head returns the first bytes of a regular file, at most limit. Its errors are those
// of Read, without ErrTooLarge.
func Head(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// Open opens a regular file for reading. It does not follow a symbolic link in the
// last element of the path, and does not wait for the writer of a FIFO. The caller
// bounds what it reads.
func Open(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, ErrNotRegular)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
