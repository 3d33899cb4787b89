package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
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
		RunE: func(cmd *cobra.Command, args []string) error { return runAttach(cmd, o, args[0]) },
	}
	o.addFlags(cmd)
	return cmd
}

func runAttach(cmd *cobra.Command, o streamOptions, name string) error {
	c := client.New(o.socket)
	pod, err := objects.FindPod(cmd.Context(), c, o.namespace, name, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if o.container, err = objects.ChooseContainer(pod, o.container); err != nil {
		return err
	}
	hasTTY := objects.FindContainer(pod, o.container).TTY
	if o.tty && !hasTTY {
		return fmt.Errorf("container %q was made without a terminal; set its field tty in the manifest, or attach without --tty", o.container)
	}
	s := standard(cmd, o.input)
	if s.TTY = o.tty && o.input; s.TTY {
		cmd.PrintErrln("Press Enter if no prompt is shown.")
		restore, err := useTerminal(cmd, &s)
		if err != nil {
			return err
		}
		defer restore()
	}
	err = c.Stream(cmd.Context(), s.AttachPath(pod, o.container), s)
	if cmd.Context().Err() != nil {
		return nil // Ctrl-C is how one leaves
	}
	return err
}
