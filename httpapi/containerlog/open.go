package containerlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// errMoved is given if a file was renamed between being found and opened.
var errMoved = errors.New("the log was rotated at this moment: try again")

// moves is how often that may happen in a row; a fast writer's log is rotated
// a few times a second.
const moves = 10

func (s *Stream) openFirst(ctx context.Context) error {
	files, err := filesOf(s.req.Dir, s.n)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no log of instance %d: %w", s.req.Dir, s.n, fs.ErrNotExist)
	}
	last := files[len(files)-1]
	found, err := openFound(last)
	if err != nil {
		return err
	}
	s.take(found)
	info, err := s.file.Stat()
	if err != nil {
		return err
	}
	s.until = info.Size()
	s.older = files[:len(files)-1]
	for len(s.older) > 0 && s.older[0].info.ModTime().Before(s.req.Options.Since) {
		s.older = s.older[1:] // its last line is too old
	}
	for _, f := range s.older {
		if err := settleFile(ctx, f); err != nil {
			return err
		}
	}
	if s.req.Options.Tail >= 0 {
		return s.openTail()
	}
	return nil
}

// openTail finds where the last lines begin, in the newest file or before it.
func (s *Stream) openTail() error {
	rest := s.req.Options.Tail
	offset, lines, err := s.tailOfOpen(rest)
	if err != nil {
		return err
	}
	if s.unpacked == nil {
		s.offset = offset
	} else if _, err := io.CopyN(io.Discard, s.unpacked, offset); err != nil {
		return err
	}
	older := s.older
	s.older = nil
	continued := s.until > 0
	for i := len(older) - 1; i >= 0 && offset == 0; i-- {
		rest -= lines
		if offset, lines, err = tailOf(older[i], rest, continued); errors.Is(err, fs.ErrNotExist) {
			return errMoved
		} else if err != nil {
			return err
		}
		s.older, s.skip = older[i:], offset
		continued = continued || older[i].info.Size() > 0
	}
	return nil
}

// tailOfOpen is tailOffset for the file that is open.
func (s *Stream) tailOfOpen(n int64) (offset, lines int64, err error) {
	if s.unpacked != nil {
		return tailOfCompressed(s.path, n, false)
	}
	return tailOffset(s.file, s.until, n, false)
}

// tailOf is tailOffset for a file to which nothing is added any more.
func tailOf(f logFile, n int64, continued bool) (offset, lines int64, err error) {
	if f.compressed() {
		return tailOfCompressed(f.path, n, continued)
	}
	file, err := os.Open(f.path)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	return tailOffset(file, info.Size(), n, continued)
}

// settleFile is settle for one of the older files.
func settleFile(ctx context.Context, f logFile) error {
	if f.compressed() {
		return nil
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed or compressed
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return settle(ctx, file)
}

// take goes on with another file, from its beginning.
func (s *Stream) take(next source) {
	s.source.close()
	s.source, s.offset = next, 0
	if s.watch != nil {
		s.watch.link(next.path)
	}
}

// source is an open file.
type source struct {
	file *os.File
	// path is the name under which it was opened.
	path string
	// unpacked is what is in it if it is compressed, else nil.
	unpacked io.Reader
}

func (f source) close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
	}
}

// openFound opens a file as it was found. The name of the log itself may be
// that of a later file by now: that is errMoved.
func openFound(f logFile) (source, error) {
	found, err := openFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return source{}, errMoved
	}
	if err != nil || found.unpacked != nil {
		return found, err
	}
	info, err := found.file.Stat()
	if err == nil && !os.SameFile(info, f.info) {
		err = errMoved
	}
	if err != nil {
		found.close()
		return source{}, err
	}
	return found, nil
}

// openFile opens a file of either kind. One that was compressed since it was
// found is found again.
func openFile(path string) (source, error) {
	if !strings.HasSuffix(path, gzSuffix) {
		f, err := os.Open(path)
		if !errors.Is(err, fs.ErrNotExist) || strings.HasSuffix(path, suffix) {
			return source{file: f, path: path}, err
		}
		path += gzSuffix
	}
	f, unpacked, err := openCompressed(path)
	return source{file: f, path: path, unpacked: unpacked}, err
}
