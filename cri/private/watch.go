package private

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/pidfd"
)

// waitEnd returns nil when the process behind the socket, which reports its pid, has exited.
func (c *Containerd) waitEnd(ctx context.Context) error {
	process, err := c.process(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, os.ErrProcessDone) {
		return nil // nothing listens: it has exited
	}
	if err != nil {
		return err
	}
	defer process.Close()
	return process.Wait(ctx)
}

// process returns the process behind the socket. The error is os.ErrProcessDone for one that has just exited.
func (c *Containerd) process(ctx context.Context) (*pidfd.Process, error) {
	conn, err := dial(ctx, c.cfg.Socket())
	if err != nil {
		return nil, fmt.Errorf("failed to connect to %s: %w", c.cfg.Socket(), err)
	}
	pid, err := peer(conn)
	_ = conn.Close()
	if err != nil {
		return nil, fmt.Errorf("failed to identify the process that listens on %s: %w", c.cfg.Socket(), err)
	}
	return pidfd.Open(pid)
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
