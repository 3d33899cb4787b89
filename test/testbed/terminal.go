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

	"github.com/podstead/podstead/internal/wakeup"
)

// Terminal is a pseudo-terminal with a program on it, as in an interactive session.
type Terminal struct {
	*os.File
	mu      sync.Mutex
	screen  bytes.Buffer
	changed wakeup.Signal
}

// StartOnTerminal starts the program on a new pseudo-terminal.
func StartOnTerminal(cmd *exec.Cmd, columns, rows uint16) (*Terminal, error) {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	t := &Terminal{File: ptmx, changed: wakeup.NewSignal()}
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

// Resize changes the terminal's size and notifies its foreground processes.
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
		t.changed.Notify()
		if err != nil {
			return
		}
	}
}

// Screen returns all output so far.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.String()
}
