package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// waitEnd returns nil when the process behind the socket has exited. Nothing is
// polled: the socket reports the pid, and a pidfd becomes readable when the
// process exits, whether or not it is our child.
func (c *Containerd) waitEnd(ctx context.Context) error {
	conn, err := dial(ctx, c.cfg.Socket())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return nil // nothing listens: it has exited
	}
	if err != nil {
		return fmt.Errorf("failed to connect to %s: %w", c.cfg.Socket(), err)
	}
	pid, err := peer(conn)
	_ = conn.Close()
	if err != nil {
		return fmt.Errorf("failed to identify the process that listens on %s: %w", c.cfg.Socket(), err)
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to watch process %d: %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return fmt.Errorf("failed to watch process %d: %w", pid, err)
	}
	// A deadline in the past ends the read below when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// The first call polls the kernel; each later one comes after the poller saw
	// the descriptor readable.
	err = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ended reports whether the pidfd is readable, which means that its process has
// exited.
func ended(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// peer returns the pid of the process that listens on the other end.
func peer(conn interface{ File() (*os.File, error) }) (int, error) {
	f, err := conn.File()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	cred, err := unix.GetsockoptUcred(int(f.Fd()), unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return int(cred.Pid), nil
}
