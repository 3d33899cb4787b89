package containerlog

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
)

// tailOfCompressed is tailOffset for a compressed file, which can only be read forwards.
// offset is an offset in the decompressed content.
func tailOfCompressed(path string, n int64, continued bool) (offset, lines int64, err error) {
	ends, open, _, err := scanCompressed(path, -1)
	if err != nil {
		return 0, 0, err
	}
	want := n
	if open && !continued {
		want--
		lines = 1
	}
	if ends <= want {
		return 0, lines + ends, nil
	}
	_, _, offset, err = scanCompressed(path, ends-max(want, 0))
	return offset, n, err
}

// scanCompressed reads the first limit lines of a compressed file, all if limit is negative.
// It returns the number of lines, whether the file ends with an incomplete line, and the
// offset where it stopped.
func scanCompressed(path string, limit int64) (ends int64, open bool, offset int64, err error) {
	f, z, err := openCompressed(path)
	if err != nil {
		return 0, false, 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(z, tailBlock)
	for ends != limit {
		head, err := r.ReadSlice('\n')
		partial := isPartial(head)
		offset += int64(len(head))
		for errors.Is(err, bufio.ErrBufferFull) {
			head, err = r.ReadSlice('\n')
			offset += int64(len(head))
		}
		if errors.Is(err, io.EOF) || damaged(err) {
			// A truncated last line counts as well.
			if len(head) > 0 && !partial {
				ends++
			}
			return ends, open, offset, nil
		}
		if err != nil {
			return 0, false, 0, err
		}
		if open = partial; !partial {
			ends++
		}
	}
	return ends, open, offset, nil
}

// openCompressed opens a compressed file. Only the file has to be closed.
func openCompressed(path string) (*os.File, io.Reader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	z, err := gzip.NewReader(f)
	switch {
	case damaged(err) || errors.Is(err, io.EOF):
		return f, eof{}, nil
	case err != nil:
		_ = f.Close()
		return nil, nil, fmt.Errorf("failed to read %s: %w", path, err)
	}
	return f, z, nil
}

// eof is an empty file.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// damaged reports whether an error means that a compressed file is truncated or corrupt.
// What can be read of it is shown, and later files are not skipped.
func damaged(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &corrupt)
}
