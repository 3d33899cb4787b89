package pidfd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process whose end can be awaited. Another one that gets its number later is not mistaken for it.
type Process struct{ file *os.File }

// Open opens a process by its number; os.ErrProcessDone if there is none. Close must follow.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		err = os.ErrProcessDone
	}
	if err != nil {
		return nil, fmt.Errorf("failed to watch process %d: %w", pid, err)
	}
	return &Process{os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Close releases the descriptor.
func (p *Process) Close() error { return p.file.Close() }

// Signal sends a signal to the process; os.ErrProcessDone if it has ended.
func (p *Process) Signal(signal unix.Signal) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	if err := raw.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), signal, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(sent, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return sent
}

// Wait returns nil once the process has ended, whether or not it is a child of this one: its descriptor becomes
// readable then, so that nothing is polled. The error is that of ctx, or of the descriptor; after an error, Wait must
// not be called again.
func (p *Process) Wait(ctx context.Context) error {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	// A deadline in the past ends the read below when ctx ends.
	stop := context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	// The first call polls the kernel; each later one comes after the poller saw the descriptor readable.
	err = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// ended reports whether the descriptor is readable, which means that its process has ended.
func ended(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
