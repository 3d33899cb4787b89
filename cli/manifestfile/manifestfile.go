package manifestfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podstead/podstead/manifest"
)

// Each passes the content of each manifest file of an argument to use, or the fault of a file
// that cannot be read. The argument is a file, a directory, or - for stdin. Files are read as
// the daemon reads them, except for a stream that the argument names, such as /dev/stdin or the
// pipe of a shell's <(command).
func Each(ctx context.Context, path string, stdin io.Reader,
	use func(file string, data []byte, fault *manifest.Fault) error) error {
	if path == "-" {
		data, err := interruptible(ctx, func() ([]byte, error) { return readAll(stdin) })
		if err != nil {
			return fmt.Errorf("failed to read standard input: %w", err)
		}
		return use(path, data, nil)
	}
	info, err := os.Stat(path)
	if err != nil {
		return readError(path, err)
	}
	files := []string{path}
	switch {
	case info.IsDir():
		if files, err = inDirectory(path); err != nil {
			return err
		}
	case isStream(info):
		data, err := readStream(ctx, path)
		if err != nil {
			return err
		}
		return use(path, data, nil)
	}
	for _, file := range files {
		data, fault := manifest.ReadFile(file)
		if err := use(file, data, fault); err != nil {
			return err
		}
	}
	return nil
}

// ReadFile reads one file that an argument names, which may be a stream.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && isStream(info) {
		return readStream(ctx, path)
	}
	data, fault := manifest.ReadFile(path)
	if fault != nil {
		return nil, *fault
	}
	return data, nil
}

func isStream(info fs.FileInfo) bool {
	return info.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice) != 0
}

func readStream(ctx context.Context, path string) ([]byte, error) {
	data, err := interruptible(ctx, func() ([]byte, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAll(f)
	})
	if err != nil {
		return nil, readError(path, err)
	}
	return data, nil
}

// readAll reads up to one byte beyond the daemon's limit, so that the loader reports a manifest
// that is too large.
func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, manifest.MaxUnitSize+1))
}

// interruptible returns the result of read, or the error of ctx as soon as it is done: a
// signal ends a command whose input does not come.
func interruptible(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inDirectory returns the files of a directory that the daemon would read.
func inDirectory(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		full := filepath.Join(dir, e.Name())
		if info, err := os.Stat(full); err == nil && !info.IsDir() && manifest.IsManifestFile(e.Name()) {
			files = append(files, full)
		}
	}
	return files, nil
}

// readError returns the error for a file that cannot be read, without the name of the system
// call.
func readError(path string, err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return fmt.Errorf("failed to read %s: %w", path, err)
}
