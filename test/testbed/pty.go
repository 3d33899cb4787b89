package testbed

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Terminal is a terminal with a program on it, as a person sits before.
type Terminal struct {
	*os.File
	mu      sync.Mutex
	screen  bytes.Buffer
	changed chan struct{}
}

// OnTerminal starts the program on a terminal of its own.
func OnTerminal(cmd *exec.Cmd, columns, rows uint16) (*Terminal, error) {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	t := &Terminal{File: ptmx, changed: make(chan struct{}, 1)}
	if err := t.start(cmd, columns, rows); err != nil {
		_ = ptmx.Close()
		return nil, err
	}
	go t.read()
	return t, nil
}

func (t *Terminal) start(cmd *exec.Cmd, columns, rows uint16) error {
	fd := int(t.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return fmt.Errorf("cannot unlock the terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return fmt.Errorf("cannot name the terminal: %w", err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	if err := t.Resize(columns, rows); err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return cmd.Start()
}

// Resize changes the terminal's size, which notifies its programs.
func (t *Terminal) Resize(columns, rows uint16) error {
	return unix.IoctlSetWinsize(int(t.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: columns, Row: rows})
}

func (t *Terminal) read() {
	b := make([]byte, 4096)
	for {
		n, err := t.Read(b)
		t.mu.Lock()
		t.screen.Write(b[:n])
		t.mu.Unlock()
		select {
		case t.changed <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// Screen is all that was shown so far.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}
