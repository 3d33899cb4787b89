package containerlog

import (
	"bytes"
	"io"
)

const (
	// tailBlock is the size in bytes of one read while searching backwards.
	tailBlock = 64 << 10
	// headSize is the size in bytes that the time, stream and tags of a line need.
	headSize = 128
)

// tailOffset returns the offset of the last n lines in the first size bytes, and the number
// of lines from there. It reads backwards, so that the cost depends on the lines and not on
// the file size. A line in several parts counts as one; the kubelet counts each part.
// continued means that another file follows: an incomplete last line then belongs to the
// first line of that file and is not counted.
func tailOffset(f io.ReaderAt, size, n int64, continued bool) (offset, lines int64, err error) {
	if n <= 0 && !continued {
		return size, 0, nil
	}
	// tooMany counts a line that begins with head. If there are more than n, the tail begins
	// after it. The last line counts even if it is incomplete.
	tooMany := func(head []byte) bool {
		if lines == 0 && !continued || !isPartial(head) {
			lines++
		}
		return lines > n
	}
	block := make([]byte, tailBlock)
	end := size // of the current line, including its line feed
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

// isPartial reports whether a line with this head is partial. It is always false for
// Docker's lines, whose text comes first.
func isPartial(head []byte) bool {
	if len(head) == 0 || head[0] == '{' {
		return false
	}
	m, err := parseHead(head)
	return err == nil && m.partial
}
