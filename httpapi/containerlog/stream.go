package containerlog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
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
	// source is the file that is read, up to offset so far.
	source
	offset int64
	// until ends the reading of a stream that does not follow.
	until int64
	watch *watch
	buf   []byte // [:held] is a line whose end was not read yet
	held  int
	// long is the beginning of a line that is longer than buf.
	long *message
}

// Open opens a log at the place where the printing begins. The error is
// fs.ErrNotExist if the instance has no log. It waits, if need be, for the
// runtime to finish a file that was rotated at this moment.
func Open(ctx context.Context, req Request) (*Stream, error) {
	s := &Stream{req: req, n: req.Instance, buf: make([]byte, readBuffer)}
	if req.Follow != nil {
		// Before the first look, so that no change falls between.
		w, err := openWatch(req.Dir)
		if err != nil {
			return nil, err
		}
		s.watch = w
	}
	err := s.openFirst(ctx)
	for range moves {
		if !errors.Is(err, errMoved) {
			break
		}
		err = s.openFirst(ctx)
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
	s.source.close()
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
		moved, err := s.advance(ctx, p, ended, flush)
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

// drainOlder prints the files that come before the one that is open. One that
// a rotation removed meanwhile is not there any more for anybody.
func (s *Stream) drainOlder(ctx context.Context, p *printer) error {
	for _, f := range s.older {
		file, err := openFile(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			s.skip = 0
			continue
		}
		if err != nil {
			return err
		}
		var r io.Reader = file.file
		if file.unpacked != nil {
			r = file.unpacked
		}
		_, err = io.CopyN(io.Discard, r, s.skip)
		s.skip = 0
		if err == nil {
			err = s.fill(ctx, p, r.Read)
		}
		file.close()
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
