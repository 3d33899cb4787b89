package fileaccess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/retry"
)

// Writers reports why users other than root, and the user of this process, may change a file
// or directory; empty if they may not.
func Writers(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return fmt.Sprintf("it has mode %04o", mode)
	case ok && mode&0o020 != 0 && stat.Gid != 0:
		return fmt.Sprintf("it has mode %04o and group %d", mode, stat.Gid)
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("it belongs to user %d", stat.Uid)
	}
	return ""
}

// pollInterval is how often AwaitClosed checks.
const pollInterval = 5 * time.Millisecond

// AwaitClosed waits until no process has the file open for writing, at most for the limit: a runtime writes
// the last output of a container after it has reported its exit.
func AwaitClosed(ctx context.Context, file *os.File, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for HasWriter(file) {
		if !retry.Sleep(ctx, pollInterval) {
			return
		}
	}
}

// HasWriter reports whether a process has the file open for writing: then the
// kernel grants no read lease. The lease is released immediately. Where leases
// are not available (files of another user, some file systems) it returns
// false.
func HasWriter(file *os.File) bool {
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	var leaseErr error
	err = raw.Control(func(fd uintptr) {
		if _, leaseErr = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_RDLCK); leaseErr == nil {
			_, _ = unix.FcntlInt(fd, unix.F_SETLEASE, unix.F_UNLCK)
		}
	})
	return err == nil && errors.Is(leaseErr, unix.EAGAIN)
}
