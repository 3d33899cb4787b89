package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

func attachCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "attach POD",
		Short: "Join what a container runs",
		Long: `Join the input and output of what a container of a pod runs.

POD is a pod's name as its manifest has it, or with the suffix -NODE. The input
is passed on with --stdin, to a container whose manifest says stdin: true.
Ctrl-C leaves, and leaves the container running; one with tty: true, joined
with -it, gets Ctrl-C itself.`,
		Example: `  podstead attach web
  podstead attach -it shell`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return attach(cmd, o, args[0]) },
	}
	o.addFlags(cmd)
	return cmd
}

func attach(cmd *cobra.Command, o streamOptions, name string) error {
	c := newClient(o.socket)
	pod, err := onePod(cmd, c, o.namespace, name)
	if err != nil {
		return err
	}
	if o.container, err = chooseContainer(pod, o.container); err != nil {
		return err
	}
	hasTTY := containerOf(pod, o.container).TTY
	if o.tty && !hasTTY {
		return fmt.Errorf("container %q was made without a terminal; set its field tty in the manifest, or attach without --tty", o.container)
	}
	s := standard(cmd, o.input)
	if s.tty = o.tty && o.input; s.tty {
		cmd.PrintErrln("Press Enter if no prompt is shown.")
		restore, err := s.terminal(cmd)
		if err != nil {
			return err
		}
		defer restore()
	}
	err = c.converse(cmd.Context(), "/attach/"+containerPath(pod, o.container)+"?"+s.query().Encode(), s)
	if cmd.Context().Err() != nil {
		return nil // Ctrl-C is how one leaves
	}
	return err
}

// containerOf is the container of this name, which is there.
func containerOf(pod *v1.Pod, name string) v1.Container {
	for _, c := range allContainers(pod) {
		if c.Name == name {
			return c
		}
	}
	return v1.Container{}
}
