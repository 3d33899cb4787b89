package cli

import (
	"errors"
	"net/url"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
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
		RunE: func(cmd *cobra.Command, args []string) error { return execIn(cmd, o, args[0], args[1:]) },
	}
	o.addFlags(cmd)
	return cmd
}

func execIn(cmd *cobra.Command, o streamOptions, name string, command []string) error {
	c := newClient(o.socket)
	pod, err := onePod(cmd, c, o.namespace, name)
	if err != nil {
		return err
	}
	if o.container, err = chooseContainer(pod, o.container); err != nil {
		return err
	}
	s := standard(cmd, o.input)
	if s.tty = o.tty && o.input; s.tty {
		restore, err := s.terminal(cmd)
		if err != nil {
			return err
		}
		defer restore()
	}
	return interrupted(cmd, c.converse(cmd.Context(), execPath(pod, o.container, command, s), s))
}

// execPath asks for a command in a container.
func execPath(pod *v1.Pod, container string, command []string, s session) string {
	q := s.query()
	q["command"] = command
	return "/exec/" + containerPath(pod, container) + "?" + q.Encode()
}

func containerPath(pod *v1.Pod, container string) string {
	return url.PathEscape(pod.Namespace) + "/" + url.PathEscape(pod.Name) + "/" + url.PathEscape(container)
}

// interrupted gives what ended by Ctrl-C the shells' exit code for it.
func interrupted(cmd *cobra.Command, err error) error {
	if cmd.Context().Err() != nil {
		return &ExitError{Code: ExitInterrupted}
	}
	return err
}
