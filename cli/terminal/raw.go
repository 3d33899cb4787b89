package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// MakeRaw puts the terminal f into raw mode. It returns the terminal's sizes, the first
// one at once, and the function that restores the mode.
func MakeRaw(ctx context.Context, f *os.File) (sizes <-chan Size, restore func(), err error) {
	fd := int(f.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	return watchSize(ctx, fd), func() {
		cancel()
		_ = term.Restore(fd, old)
	}, nil
}

// watchSize delivers the terminal's size, and again whenever it changes.
func watchSize(ctx context.Context, fd int) <-chan Size {
	sizes, changed := make(chan Size), make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(sizes)
		defer signal.Stop(changed)
		for {
			if width, height, err := term.GetSize(fd); err == nil {
				select {
				case sizes <- Size{uint16(width), uint16(height)}:
				case <-ctx.Done():
					return
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sizes
}

// Size is the size of a terminal in characters.
type Size struct{ Width, Height uint16 }
