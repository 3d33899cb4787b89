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

// tailOfCompressed is tailOffset for a compressed file, which can only be read
// forward; offset counts in what is decompressed.
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

// scanCompressed reads a compressed file up to the end of so many lines,
// negative for all. It returns how many ended, whether a piece of one follows
// at the end of the file, and where it stopped.
func scanCompressed(path string, most int64) (ends int64, open bool, offset int64, err error) {
	f, z, err := openCompressed(path)
	if err != nil {
		return 0, false, 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(z, tailBlock)
	for ends != most {
		head, err := r.ReadSlice('\n')
		partial := isPartial(head)
		offset += int64(len(head))
		for errors.Is(err, bufio.ErrBufferFull) {
			head, err = r.ReadSlice('\n')
			offset += int64(len(head))
		}
		if errors.Is(err, io.EOF) || damaged(err) {
			// One that was cut short counts as all the others.
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

// openCompressed opens a compressed file. Closing the file is enough.
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
		return nil, nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	return f, z, nil
}

// eof is an empty file.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// damaged says that a compressed file was not written to its end, or worse:
// what can be read of it is shown, and it does not hide what came later.
func damaged(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &corrupt)
}
