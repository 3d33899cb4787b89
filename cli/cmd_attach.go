package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
)

func attachCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "attach POD",
		Short: "Attach to a running container",
		Long: `Attach to the process that runs in a container of a pod.

POD is the name in the pod's manifest, or that name with the suffix -NODE. With
--stdin the input is passed to the container, which must have stdin: true in its
manifest. Ctrl-C detaches and leaves the container running; if the container has
tty: true and -it is given, Ctrl-C is sent to the container.`,
		Example: `  # Show the output of pod web
  podstead attach web

  # Connect the terminal with pod shell
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
	hasTTY := podinfo.FindContainer(&pod.Spec, o.container).TTY
	if o.tty && !hasTTY {
		return fmt.Errorf("container %q has no TTY; set tty: true in its manifest, or attach without --tty", o.container)
	}
	s := standardStreams(cmd, o.input)
	if s.TTY = o.tty && o.input; s.TTY {
		cmd.PrintErrln("Press Enter if no prompt is shown.")
		restore, err := useTerminal(cmd, &s)
		if err != nil {
			return err
		}
		defer restore()
	}
	err = s.Run(cmd.Context(), c, s.AttachPath(pod, o.container))
	if cmd.Context().Err() != nil {
		return nil // Ctrl-C is the normal way to detach
	}
	return err
}
