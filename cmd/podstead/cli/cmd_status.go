package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/nodestatus"
	"github.com/podstead/podstead/cmd/podstead/cli/output"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

func statusCommand() *cobra.Command {
	var socket, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how the node, its sources and its pods are",
		Long: `Show on one screen how the node is: whether the runtime answers, what is under
pressure, what each source of manifests delivered and what is wrong with it, and
of each pod that is not ready the reason.

The exit code is 0 if all is well or is on its way, 1 if the node is not ready,
a manifest is at fault or a pod fails, 3 if no daemon answers.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := nodestatus.Load(cmd.Context(), client.New(socket))
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch format {
			case "":
				_, err = io.WriteString(out, s.Text(terminal.Detect(out)))
			case "json", "yaml":
				err = output.PrintEncoded(out, s.Summary(), format)
			default:
				return usageError(fmt.Errorf("--output %q: must be json or yaml", format))
			}
			if err == nil && !s.Healthy() {
				return &ExitError{Code: ExitFailed}
			}
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVarP(&format, "output", "o", "", "json or yaml")
	return cmd
}
