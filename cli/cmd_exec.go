package cli

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/streams"
	"github.com/podstead/podstead/cli/terminal"
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
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the pod; required if pods in several namespaces have this name")
	f.StringVarP(&o.container, "container", "c", "", "`name` of the container; required if the pod has more than one")
	f.BoolVarP(&o.input, "stdin", "i", false, "pass stdin to the container")
	f.BoolVarP(&o.tty, "tty", "t", false, "stdin is a TTY; requires --stdin")
}

func execCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "exec POD -- COMMAND [ARG...]",
		Short: "Execute a command in a container",
		Long: `Execute a command in a container of a running pod.

POD is the name in the pod's manifest, or that name with the suffix -NODE. The exit
code is that of the command. With -it the command runs on this terminal.`,
		Example: `  # List the root directory of pod web
  podstead exec web -- ls /

  # Start a shell in container main
  podstead exec -it web -c main -- sh

  # Write a file through stdin
  podstead exec -i web -- sh -c 'cat > /tmp/x' < x`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || cmd.ArgsLenAtDash() != 1 {
				return errors.New("you must specify a pod and a command after --, such as: podstead exec web -- ls /")
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
	s := standardStreams(cmd, o.input)
	if s.TTY = o.tty && o.input; s.TTY {
		restore, err := useTerminal(cmd, &s)
		if err != nil {
			return err
		}
		defer restore()
	}
	return interrupted(cmd, s.Run(cmd.Context(), c, s.ExecPath(pod, o.container, command)))
}

// interrupted returns the shells' exit code for Ctrl-C if the command was interrupted.
func interrupted(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return &ExitError{Code: ExitInterrupted}
	}
	return err
}

// standardStreams returns a session with the standard streams of this program.
func standardStreams(cmd *cobra.Command, input bool) streams.Session {
	s := streams.Session{Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr()}
	if input {
		s.Stdin = cmd.InOrStdin()
	}
	return s
}

// useTerminal connects the session with this program's terminal and returns the
// function that restores its mode. If the input is not a terminal, it warns and the
// session continues without one, as kubectl does.
func useTerminal(cmd *cobra.Command, s *streams.Session) (restore func(), err error) {
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
