package containerlog

import (
	"bytes"
	"io"
)

const (
	// tailBlock is how much is read at once when looking back.
	tailBlock = 64 << 10
	// headSize is enough for the time, stream and tags of a line.
	headSize = 128
)

// tailOffset is where the last n lines of the first size bytes begin, and how
// many lines there are from there. It reads from the end, so that the cost is
// that of the lines and not of the file. A line in pieces is one line; the
// kubelet counts each piece. With continued another file follows: a line
// without an end is one with the first of that file and is not counted.
func tailOffset(f io.ReaderAt, size, n int64, continued bool) (offset, lines int64, err error) {
	if n <= 0 && !continued {
		return size, 0, nil
	}
	// tooMany counts a line that begins with head: the tail begins after it
	// if it is the end of one line too many. The last line counts even if
	// its end is still to come.
	tooMany := func(head []byte) bool {
		if lines == 0 && !continued || !isPartial(head) {
			lines++
		}
		return lines > n
	}
	block := make([]byte, tailBlock)
	end := size // of the line that is looked at, line feed included
	head := make([]byte, headSize)
	for stop := size; stop > 0; {
		from := max(0, stop-tailBlock)
		b := block[:stop-from]
		if _, err := f.ReadAt(b, from); err != nil {
			return 0, 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			i = bytes.LastIndexByte(b[:i+1], '\n')
			if i < 0 {
				break
			}
			start := from + int64(i) + 1
			if start == size {
				continue
			}
			h := b[i+1:]
			if int64(len(h)) >= end-start {
				h = h[:end-start]
			} else if len(h) < headSize {
				h = head[:min(headSize, end-start)]
				if _, err := f.ReadAt(h, start); err != nil {
					return 0, 0, err
				}
			}
			if tooMany(h) {
				return end, lines - 1, nil
			}
			end = start
		}
		stop = from
	}
	if end > 0 {
		h := head[:min(headSize, end)]
		if _, err := f.ReadAt(h, 0); err != nil {
			return 0, 0, err
		}
		if tooMany(h) {
			return end, lines - 1, nil
		}
	}
	return 0, lines, nil
}

// isPartial says whether a line that begins so is a piece. For Docker's lines,
// whose text comes first, it cannot tell from the beginning: each counts.
func isPartial(head []byte) bool {
	if len(head) == 0 || head[0] == '{' {
		return false
	}
	m, err := parseHead(head)
	return err == nil && m.partial
}
