package containerlog

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/retry"
)

// A rotated file is complete only after its last writer has closed it.
//
// containerd (1.6 to 2.4) passes what it reads from a container, up to 32 KiB at a time, to
// one goroutine per stream and open file. To reopen a log it opens the new file, redirects
// the streams to it, ends the input of the old goroutines, and responds. They write what they
// still have to the old file: whole lines, then the rest of an incomplete line as a partial
// one (P). Only then do they close it. The first line of that stream in the new file is the
// rest of this partial line, and often written earlier. Neither the last tag nor the times
// show whether more follows: at first the old file may end with a whole line.
//
// conmon (CRI-O) is single-threaded and closes the old file before it writes to the new
// one.
const (
	// writerTimeout is how long a writer may write nothing before its file counts as
	// complete. A busy disk may block a writer, and another process may keep the file open
	// forever.
	writerTimeout = 10 * time.Second
	// unknownWriterTimeout is the same if it is unknown whether there is a writer.
	unknownWriterTimeout = 200 * time.Millisecond
	// settleTimeout is the maximum wait, whatever the modification time is.
	settleTimeout = 30 * time.Second
	// settleInterval is the interval of checks.
	settleInterval = 5 * time.Millisecond
)

// settle waits until no process writes to a rotated file any more. It returns at once for a
// file that was written long ago.
func settle(ctx context.Context, f *os.File) error {
	for start := time.Now(); time.Since(start) < settleTimeout; {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		idle := time.Since(info.ModTime())
		if idle >= writerTimeout {
			return nil
		}
		written, err := hasWriter(f)
		if err == nil && !written || err != nil && idle >= unknownWriterTimeout && whole(f, info.Size()) {
			return nil
		}
		if !retry.Sleep(ctx, settleInterval) {
			return ctx.Err()
		}
	}
	return nil
}

// hasWriter reports whether a process has the file open for writing: then the kernel grants
// no read lease. An error means that this is unknown, as on a file system without leases.
func hasWriter(f *os.File) (bool, error) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// Released at once, because a process that opens the file for writing would block.
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return false, err
}

// whole reports whether a file ends with a whole line.
func whole(f *os.File, size int64) bool {
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return true // the next read returns the error
		}
	}
	return last[0] == '\n'
}
