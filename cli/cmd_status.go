package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/nodestatus"
	"github.com/podstead/podstead/cli/output"
	"github.com/podstead/podstead/cli/terminal"
)

func statusCommand() *cobra.Command {
	var socket, format string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the status of the node, its manifest sources and its pods",
		Long: `Show the status of the node on one screen: the container runtime, pressure
conditions, each source of manifests with its errors, and the reason for each pod that
is not ready.

The exit code is 0 if everything is healthy or starting, 1 if the node is not ready or
under pressure, the daemon cannot write to its root directory, a manifest or an image archive is
invalid or a pod is failing, 3 if the daemon cannot be reached.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, format) {
				return usageError(fmt.Errorf("--output %q: must be json or yaml", format))
			}
			s, err := nodestatus.Load(cmd.Context(), client.New(socket))
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if format == "" {
				_, err = io.WriteString(out, s.Text(terminal.Detect(out)))
			} else {
				err = output.PrintEncoded(out, s.Summary(), format)
			}
			if err == nil && !s.Healthy() {
				return &ExitError{Code: ExitFailed}
			}
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVarP(&format, "output", "o", "", "output format: json or yaml")
	return cmd
}
