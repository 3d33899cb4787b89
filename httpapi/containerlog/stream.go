package containerlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

const (
	readBuffer  = 64 << 10
	writeBuffer = 64 << 10
	// maxLine is how long a line of the file may be to be read whole. A
	// longer one (containerd can be told not to split) goes through in pieces.
	maxLine = 1 << 20
)

// Options choose what is printed and how.
type Options struct {
	// Tail is how many of the last lines are printed at first; negative is all.
	Tail int64
	// Since leaves out lines that are older; zero leaves out none.
	Since time.Time
	// Limit is how many bytes are printed at most; 0 is no limit.
	Limit int64
	// Timestamps puts the time before each line.
	Timestamps bool
}

// Follow makes a stream go on with what is printed later.
type Follow struct {
	// Ended says that nothing more will be printed, by this instance or a later one.
	Ended func() bool
	// Changed is woken when Ended may have another answer.
	Changed <-chan struct{}
}

// Request says what is to be read.
type Request struct {
	// Dir is the folder with the logs of one container.
	Dir string
	// Instance is the number N of the log N.log to begin with.
	Instance int
	Options  Options
	// Follow is nil for what there is now: the answer ends even if the
	// container prints faster than it can be read.
	Follow *Follow
}

// Output is where lines go. Flush is called when there is nothing more to read
// for now.
type Output interface {
	io.Writer
	Flush() error
}

// Stream is an open log. It is used by one goroutine.
type Stream struct {
	req Request
	n   int
	// older are files of the first instance that come before file, of which
	// the first skip bytes are left out.
	older []logFile
	skip  int64
	// file was opened under path; unpacked is what is in it if it is
	// compressed, else nil.
	file     *os.File
	path     string
	unpacked io.Reader
	offset   int64
	// until ends the reading of a stream that does not follow.
	until int64
	watch *watch
	buf   []byte // [:held] is a line whose end was not read yet
	held  int
	// long is the beginning of a line that is longer than buf.
	long *message
}

// Open opens a log at the place where the printing begins. The error is
// fs.ErrNotExist if the instance has no log.
func Open(req Request) (*Stream, error) {
	s := &Stream{req: req, n: req.Instance, buf: make([]byte, readBuffer)}
	if req.Follow != nil {
		// Before the first look, so that no change falls between.
		w, err := openWatch(req.Dir)
		if err != nil {
			return nil, err
		}
		s.watch = w
	}
	err := s.openFirst()
	for range moves {
		if !errors.Is(err, errMoved) {
			break
		}
		err = s.openFirst()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends the stream.
func (s *Stream) Close() {
	if s.watch != nil {
		s.watch.close()
	}
	if s.file != nil {
		_ = s.file.Close() // it was only read
	}
}

// Copy prints the log to out until its end, or while it follows until the
// container has ended for good or ctx ends; then the error is that of ctx.
func (s *Stream) Copy(ctx context.Context, out Output) error {
	w := bufio.NewWriterSize(out, writeBuffer)
	p := newPrinter(w, s.req.Options)
	err := s.copy(ctx, p, func() error {
		if err := w.Flush(); err != nil {
			return err
		}
		return out.Flush()
	})
	if err == nil {
		err = p.end()
	}
	if errors.Is(err, errLimit) {
		err = nil
	}
	return errors.Join(err, w.Flush())
}

func (s *Stream) copy(ctx context.Context, p *printer, flush func() error) error {
	if err := s.drainOlder(ctx, p); err != nil {
		return err
	}
	if s.req.Follow == nil {
		if err := s.drain(ctx, p); err != nil {
			return err
		}
		return s.torn(p)
	}
	for {
		// Asked before the reading: what was printed before the end is read.
		ended := s.req.Follow.Ended()
		if err := s.drain(ctx, p); err != nil {
			return err
		}
		moved, err := s.advance(ctx, p, ended)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		if ended {
			return s.torn(p)
		}
		if err := flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.watch.wake:
		case <-s.req.Follow.Changed:
			s.watch.names.Store(true)
		}
	}
}

// advance goes on to the file that continues this one, if there is one: the
// same instance's after a rotation, or the next instance's. Names are looked at
// only if one changed.
func (s *Stream) advance(ctx context.Context, p *printer, ended bool) (bool, error) {
	info, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	if s.unpacked == nil && info.Size() < s.offset {
		// Cut by a rotation that copies and truncates.
		s.offset, s.held, s.long = 0, 0, nil
		return true, nil
	}
	// Nothing is added to a compressed file: another one goes on.
	if !s.watch.names.Swap(false) && !ended && s.unpacked == nil {
		return false, nil
	}
	path, instance, err := s.next(info)
	if err != nil || path == "" {
		return false, err
	}
	// The writer had this file until the next one was there, and some have it
	// for a moment longer.
	if err := s.settle(ctx); err != nil {
		return false, err
	}
	if err := s.drain(ctx, p); err != nil {
		return false, err
	}
	if err := s.torn(p); err != nil {
		return false, err
	}
	if instance != s.n {
		if err := p.end(); err != nil {
			return false, err
		}
	}
	// More may have changed than this one step: look again. That goes for a
	// file that was renamed since, too.
	s.watch.names.Store(true)
	err = s.open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	s.n = instance
	return true, err
}

const (
	// settled is how long nothing was written to a file that is not the newest
	// any more before it counts as whole: containerd writes what it has read of a
	// container's output to the old file while it writes to the new one already.
	settled = 200 * time.Millisecond
	// stalled is the same for one that ends amid a line: a host whose disk is busy
	// may stop a writer there.
	stalled = 5 * time.Second
	// settles bounds how often that is waited for.
	settles = 50
)

// settle waits until the open file was not written to for a moment. Who reads
// what was written long ago does not wait.
func (s *Stream) settle(ctx context.Context) error {
	for range settles {
		info, err := s.file.Stat()
		if err != nil {
			return err
		}
		quiet := settled
		if !whole(s.file, info.Size()) {
			quiet = stalled
		}
		left := quiet - time.Since(info.ModTime())
		if s.unpacked != nil || left <= 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, settled)): // a clock that was set back says more
		}
	}
	return nil
}

// whole reports whether a file ends with a line.
func whole(f *os.File, size int64) bool {
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return true // the next read tells
		}
	}
	return last[0] == '\n'
}

// next is the path that continues the open file, empty if there is none yet.
func (s *Stream) next(current fs.FileInfo) (path string, instance int, err error) {
	files, err := filesOf(s.req.Dir, s.n)
	if errors.Is(err, fs.ErrNotExist) {
		return "", 0, nil // removed with its pod; Ended will tell
	}
	if err != nil {
		return "", 0, err
	}
	if f, ok := after(files, current, s.path); ok {
		if f.info.Size() > 0 {
			return f.path, s.n, nil
		}
		// The runtime has just made it and may still be writing its last
		// lines to the old one.
		s.watch.names.Store(true)
	}
	all, err := Instances(s.req.Dir)
	if err != nil {
		return "", 0, err
	}
	i, _ := slices.BinarySearch(all, s.n+1)
	if i == len(all) {
		return "", 0, nil
	}
	if files, err = filesOf(s.req.Dir, all[i]); err != nil || len(files) == 0 {
		return "", 0, err
	}
	return files[0].path, all[i], nil
}

// drainOlder prints the files that come before the one that is open. One that
// a rotation removed meanwhile is not there any more for anybody.
func (s *Stream) drainOlder(ctx context.Context, p *printer) error {
	for _, f := range s.older {
		file, unpacked, err := openFile(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			s.skip = 0
			continue
		}
		if err != nil {
			return err
		}
		var r io.Reader = file
		if unpacked != nil {
			r = unpacked
		}
		_, err = io.CopyN(io.Discard, r, s.skip)
		s.skip = 0
		if err == nil {
			err = s.fill(ctx, p, r.Read)
		}
		_ = file.Close() // it was only read
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err := s.torn(p); err != nil {
			return err
		}
	}
	s.older = nil
	return ctx.Err()
}

// drain prints the lines up to the end of the file.
func (s *Stream) drain(ctx context.Context, p *printer) error {
	if s.unpacked != nil {
		return s.fill(ctx, p, s.unpacked.Read)
	}
	return s.fill(ctx, p, func(room []byte) (int, error) {
		if s.req.Follow == nil {
			room = room[:min(int64(len(room)), s.until-s.offset)]
		}
		if len(room) == 0 {
			return 0, io.EOF
		}
		n, err := s.file.ReadAt(room, s.offset)
		s.offset += int64(n)
		return n, err
	})
}

// fill prints what read gives until it is at the end.
func (s *Stream) fill(ctx context.Context, p *printer, read func([]byte) (int, error)) error {
	for ctx.Err() == nil {
		n, err := read(s.buf[s.held:])
		s.held += n
		if e := s.lines(p); e != nil {
			return e
		}
		if errors.Is(err, io.EOF) || damaged(err) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// lines prints the whole lines in the buffer and keeps the rest.
func (s *Stream) lines(p *printer) error {
	b := s.buf[:s.held]
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		if err := s.line(p, b[:i], true); err != nil {
			return err
		}
		b = b[i+1:]
	}
	if len(b) == len(s.buf) {
		if len(s.buf) < maxLine {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
			return nil
		}
		if err := s.line(p, b, false); err != nil {
			return err
		}
		b = nil
	}
	s.held = copy(s.buf, b)
	return nil
}

// line prints a line of the file; one that is not whole is its next piece.
func (s *Stream) line(p *printer, line []byte, whole bool) error {
	var m message
	if s.long != nil {
		m = *s.long
		m.content = line
	} else {
		var err error
		if m, err = parse(line); err != nil {
			return nil // left out, as at the kubelet
		}
	}
	if whole {
		s.long = nil
		return p.print(m)
	}
	if s.long == nil {
		long := m
		long.at, long.content = bytes.Clone(m.at), nil
		s.long = &long
	}
	m.partial = true
	return p.print(m)
}

// torn prints what a file ends with if that is no whole line: the disk was
// full, or the writer was killed.
func (s *Stream) torn(p *printer) error {
	b := s.buf[:s.held]
	s.held = 0
	if len(b) == 0 && s.long == nil {
		return nil
	}
	err := s.line(p, b, false)
	s.long = nil
	return err
}
