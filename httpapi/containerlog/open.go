package containerlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/fileaccess"
)

// errMoved means that a file was renamed after it was found and before it was opened.
var errMoved = errors.New("the log is being rotated; try again")

// maxMoves is how often this may happen in a row. The log of a fast writer is rotated a few
// times per second.
const maxMoves = 10

func (s *Stream) openFirst(ctx context.Context) error {
	files, err := filesOf(s.req.Dir, s.n)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no log of instance %d in %s: %w", s.n, s.req.Dir, fs.ErrNotExist)
	}
	last := files[len(files)-1]
	found, err := openFound(last)
	if err != nil {
		return err
	}
	s.switchTo(found)
	if s.req.Ended {
		s.awaitEnd(ctx)
	}
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

// endTimeout limits the wait for the last lines of a container that has exited. A process that it has left
// may keep the file open.
const endTimeout = time.Second

// awaitEnd waits until the runtime has closed the file that is open.
func (s *Stream) awaitEnd(ctx context.Context) {
	if s.unpacked == nil {
		fileaccess.AwaitClosed(ctx, s.file, endTimeout)
	}
}

// openTail finds the start of the last lines, in the newest file or an older one.
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

// tailOfOpen is tailOffset for the open file.
func (s *Stream) tailOfOpen(n int64) (offset, lines int64, err error) {
	if s.unpacked != nil {
		return tailOfCompressed(s.path, n, false)
	}
	return tailOffset(s.file, s.until, n, false)
}

// tailOf is tailOffset for a file that is complete.
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

// settleFile is settle for an older file.
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

// switchTo continues with another file, from its start.
func (s *Stream) switchTo(next source) {
	s.source.close()
	s.source, s.offset = next, 0
	if s.watch != nil {
		s.watch.link(next.path)
	}
}

// source is an open file.
type source struct {
	file *os.File
	// path is the path under which it was opened.
	path string
	// unpacked is the decompressed content of a compressed file, else nil.
	unpacked io.Reader
}

func (f source) close() {
	if f.file != nil {
		_ = f.file.Close() // it was only read
	}
}

// openFound opens a file that was found. If its name now belongs to a later file, the error
// is errMoved.
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

// openFile opens a plain or compressed file. It also finds a file that was compressed in the
// meantime.
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
