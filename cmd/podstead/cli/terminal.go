package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// terminal makes the session one of this program's terminal, and returns what
// gives that back. Without a terminal at the input it warns, and the session
// goes on without one, as with kubectl.
func (s *session) terminal(cmd *cobra.Command) (restore func(), err error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		cmd.PrintErrln("podstead: no terminal is used, since the input is none")
		s.tty = false
		return func() {}, nil
	}
	fd := int(in.Fd())
	ctx, cancel := context.WithCancel(cmd.Context())
	s.sizes = watchSize(ctx, fd)
	s.stderr = nil // a terminal has one output
	old, err := term.MakeRaw(fd)
	if err != nil {
		cancel()
		return nil, err
	}
	return func() {
		cancel()
		_ = term.Restore(fd, old)
	}, nil
}

// watchSize tells the terminal's size, and again whenever it changes.
func watchSize(ctx context.Context, fd int) <-chan size {
	sizes, changed := make(chan size), make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(sizes)
		defer signal.Stop(changed)
		for {
			if width, height, err := term.GetSize(fd); err == nil {
				select {
				case sizes <- size{uint16(width), uint16(height)}:
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

// standard are the streams of this program.
func standard(cmd *cobra.Command, input bool) session {
	s := session{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
	if input {
		s.stdin = cmd.InOrStdin()
	}
	return s
}
