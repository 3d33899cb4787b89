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
	// maxLine is the maximum size in bytes of a line that is read as a whole. A longer one
	// (containerd can be configured not to split lines) is processed in parts.
	maxLine = 128 << 10
)

// Options select what is printed and how.
type Options struct {
	// Tail is the number of last lines with which printing starts; negative means all.
	Tail int64
	// Since omits older lines; zero omits none.
	Since time.Time
	// Limit is the maximum number of bytes to print; 0 means no limit.
	Limit int64
	// Timestamps prints the time before each line.
	Timestamps bool
}

// Follow makes a stream continue with later output.
type Follow struct {
	// Ended reports that no more output follows, from this instance or a later one.
	Ended func() bool
	// Changed is notified when the result of Ended may have changed.
	Changed <-chan struct{}
}

// Request selects a log.
type Request struct {
	// Dir is the directory with the logs of one container.
	Dir string
	// Instance is the number N of the log N.log to start with.
	Instance int
	// Ended reports that the container of Instance has exited: what its runtime still writes is waited
	// for.
	Ended   bool
	Options Options
	// Follow is nil to read only the current content: the stream ends even if the container
	// prints faster than the log can be read.
	Follow *Follow
}

// Output receives the lines. Flush is called when there is nothing more to read for now.
type Output interface {
	io.Writer
	Flush() error
}

// Stream is an open log. It must be used by one goroutine at a time.
type Stream struct {
	req Request
	n   int
	// older are the files of the first instance before file. The first skip bytes of them
	// are omitted.
	older []logFile
	skip  int64
	// source is the file that is being read; it was read up to offset.
	source
	offset int64
	// until is the offset at which a stream without Follow ends.
	until int64
	watch *watch
	buf   []byte // [:held] is an incomplete line
	held  int
	// long is the head of a line that is longer than buf.
	long *message
}

// Open opens a log at the position where printing starts. The error is fs.ErrNotExist if
// the instance has no log. If the log is being rotated, Open waits for the runtime to
// complete the rotated file.
func Open(ctx context.Context, req Request) (*Stream, error) {
	s := &Stream{req: req, n: req.Instance, buf: make([]byte, readBuffer)}
	if req.Follow != nil {
		// Opened before the directory is listed, so that no change is missed.
		w, err := openWatch(req.Dir)
		if err != nil {
			return nil, err
		}
		s.watch = w
	}
	err := s.openFirst(ctx)
	for range maxMoves {
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

// Close closes the stream.
func (s *Stream) Close() {
	if s.watch != nil {
		s.watch.close()
	}
	s.source.close()
}

// Copy prints the log to out until its end. With Follow it prints until Follow.Ended, or until
// ctx ends; then it returns the error of ctx.
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
		// Called before reading, so that everything printed before the end is read.
		ended := s.req.Follow.Ended()
		if ended {
			s.awaitEnd(ctx)
		}
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
		case <-s.watch.changed.C():
		case <-s.req.Follow.Changed:
			s.watch.names.Store(true)
		}
	}
}

// drainOlder prints the files before the open one. It skips files that a rotation has
// removed in the meantime.
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

// drain prints the lines until the end of the file.
func (s *Stream) drain(ctx context.Context, p *printer) error {
	if s.unpacked != nil {
		return s.fill(ctx, p, s.unpacked.Read)
	}
	return s.fill(ctx, p, func(b []byte) (int, error) {
		if s.req.Follow == nil {
			b = b[:min(int64(len(b)), s.until-s.offset)]
		}
		if len(b) == 0 {
			return 0, io.EOF
		}
		n, err := s.file.ReadAt(b, s.offset)
		s.offset += int64(n)
		return n, err
	})
}

// fill prints what read returns until EOF.
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

// line prints a line of the file, or the next part of it if it is not whole.
func (s *Stream) line(p *printer, line []byte, whole bool) error {
	var m message
	if s.long != nil {
		m = *s.long
		m.content = line
	} else {
		var err error
		if m, err = parse(line); err != nil {
			return nil // skipped, as by the kubelet
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

// torn prints an incomplete line at the end of a file, as after a full disk or a killed
// writer.
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
