package containerlog

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A rotated file has an end only once its last writer has closed it.
//
// containerd (1.6 to 2.4 alike) hands what it reads from a container, up to
// 32 KiB at a time, to one goroutine for each stream and open file. To reopen a
// log it opens the new file, turns the streams to it, tells the old goroutines
// that nothing more comes, and answers. They write what they have still to the
// old file: whole lines, then what is left of a line as a piece (P). Only after
// that they close it. The new file's first line of that stream is then the rest
// of this piece, and often written earlier. Neither the last tag nor the times
// tell whether more is to come: the old file may end with a whole line at first.
//
// conmon (CRI-O) is one thread that closes the old file before it writes to the
// new one.
const (
	// stalled is how long a writer may be silent before its file counts as
	// whole: a host whose disk is busy may stop it, and somebody else may have
	// the file open for ever.
	stalled = 10 * time.Second
	// settled is the same if it cannot be told whether there is a writer.
	settled = 200 * time.Millisecond
	// settleMost is how long is waited at most, whatever the clock says.
	settleMost = 30 * time.Second
	// settlePoll is the time between two looks.
	settlePoll = 5 * time.Millisecond
)

// settle waits until nobody writes to a rotated file any more. Who reads what
// was written long ago does not wait.
func settle(ctx context.Context, f *os.File) error {
	for begun := time.Now(); time.Since(begun) < settleMost; {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		silent := time.Since(info.ModTime())
		if silent >= stalled {
			return nil
		}
		written, err := hasWriter(f)
		if err == nil && !written || err != nil && silent >= settled && whole(f, info.Size()) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
	}
	return nil
}

// hasWriter reports whether any process has a file open for writing: then the
// kernel grants no read lease. An error says that it cannot be told here, as
// on a file system without leases.
func hasWriter(f *os.File) (bool, error) {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	// Given back at once: who opens the file for writing would have to wait.
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return false, err
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
