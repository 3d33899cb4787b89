package containerlog

import (
	"bufio"
	"errors"
)

// maxBuffered is the maximum size in bytes of a partial line that is buffered until its end.
// A longer line is printed in parts; only then can lines of the other stream interrupt it.
const maxBuffered = 128 << 10

// errLimit ends printing when Options.Limit is reached.
var errLimit = errors.New("limit reached")

var lineFeed = []byte{'\n'}

// assembly is an incomplete line of one stream.
type assembly struct {
	open, skip bool
	buf        []byte
}

// printer prints messages as lines: it joins partial lines, omits those that are too old,
// and stops at the limit.
type printer struct {
	w    *bufio.Writer
	opts Options
	// left is the number of bytes that may still be written; negative means no limit.
	left int64
	// torn is true if the last printed line had no end.
	torn  bool
	lines [streams]assembly
}

func newPrinter(w *bufio.Writer, o Options) *printer {
	p := &printer{w: w, opts: o, left: -1}
	if o.Limit > 0 {
		p.left = o.Limit
	}
	return p
}

func (p *printer) print(m message) error {
	a := &p.lines[m.stream]
	if !a.open {
		a.open = true
		a.skip = !p.opts.Since.IsZero() && m.before(p.opts.Since)
		if !a.skip && p.opts.Timestamps {
			a.buf = append(append(a.buf, m.at...), ' ')
		}
	}
	if !a.skip {
		if err := p.add(a, m); err != nil {
			return err
		}
	}
	if !m.partial {
		a.open, a.skip = false, false
	}
	return nil
}

func (p *printer) add(a *assembly, m message) error {
	if m.partial {
		a.buf = append(a.buf, m.content...)
		if len(a.buf) < maxBuffered {
			return nil
		}
		return p.flushLine(a)
	}
	if err := p.flushLine(a); err != nil {
		return err
	}
	if err := p.write(m.content); err != nil {
		return err
	}
	return p.write(lineFeed)
}

// flushLine writes the buffered part of a line.
func (p *printer) flushLine(a *assembly) error {
	if len(a.buf) == 0 {
		return nil
	}
	err := p.write(a.buf)
	a.buf = a.buf[:0]
	return err
}

// end prints the buffered parts of lines that will not be completed, because their container
// has ended. What is printed next starts a new line.
func (p *printer) end() error {
	for i := range p.lines {
		a := &p.lines[i]
		if a.open && !a.skip {
			if err := p.flushLine(a); err != nil {
				return err
			}
			p.torn = true
		}
		*a = assembly{}
	}
	return nil
}

func (p *printer) write(b []byte) error {
	if p.torn && len(b) > 0 {
		p.torn = false
		if err := p.write(lineFeed); err != nil {
			return err
		}
	}
	if p.left < 0 {
		_, err := p.w.Write(b)
		return err
	}
	if int64(len(b)) > p.left {
		b = b[:p.left]
	}
	if _, err := p.w.Write(b); err != nil {
		return err
	}
	if p.left -= int64(len(b)); p.left == 0 {
		return errLimit
	}
	return nil
}
