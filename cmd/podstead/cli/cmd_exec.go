package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

// streamOptions are the flags of exec and attach.
type streamOptions struct {
	socket     string
	namespace  string
	container  string
	input, tty bool
}

func (o *streamOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	f.StringVarP(&o.container, "container", "c", "", "the `container`, needed if the pod has several")
	f.BoolVarP(&o.input, "stdin", "i", false, "pass on the input of this program")
	f.BoolVarP(&o.tty, "tty", "t", false, "make the input a terminal; needs --stdin")
}

func execCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "exec POD -- COMMAND [ARG...]",
		Short: "Run a command in a container",
		Long: `Run a command in a container of a pod that runs.

POD is a pod's name as its manifest has it, or with the suffix -NODE. The exit
code is that of the command. With -it the command gets this terminal.`,
		Example: `  podstead exec web -- ls /
  podstead exec -it web -c main -- sh
  podstead exec -i web -- sh -c 'cat > /tmp/x' < x`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
				return errors.New("one pod, two dashes and a command are needed, such as: podstead exec web -- ls /")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runExec(cmd, o, args[0], args[1:]) },
	}
	o.addFlags(cmd)
	return cmd
}

func runExec(cmd *cobra.Command, o streamOptions, name string, command []string) error {
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if o.container, err = objects.ChooseContainer(pod, o.container); err != nil {
		return err
	}
	s := standard(cmd, o.input)
	if s.TTY = o.tty && o.input; s.TTY {
		restore, err := useTerminal(cmd, &s)
		if err != nil {
			return err
		}
		defer restore()
	}
	return interrupted(cmd, c.Stream(cmd.Context(), s.ExecPath(pod, o.container, command), s))
}

// interrupted gives what ended by Ctrl-C the shells' exit code for it.
func interrupted(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return &ExitError{Code: ExitInterrupted}
	}
	return err
}

// standard are the streams of this program.
func standard(cmd *cobra.Command, input bool) client.Session {
	s := client.Session{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
	if input {
		s.Stdin = cmd.InOrStdin()
	}
	return s
}

// useTerminal connects the session with this program's terminal and returns the
// function that restores its mode. If the input is not a terminal, it warns and the
// session continues without one, as kubectl does.
func useTerminal(cmd *cobra.Command, s *client.Session) (restore func(), err error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		cmd.PrintErrln("Unable to use a TTY: the input is not a terminal")
		s.TTY = false
		return func() {}, nil
	}
	s.Stderr = nil // a terminal has one output
	s.Sizes, restore, err = terminal.MakeRaw(cmd.Context(), in)
	return restore, err
}
