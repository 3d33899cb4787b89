package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func versionCommand(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of podstead",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version)
			return err
		},
	}
	cmd.Flags().String("api-socket", DefaultSocket, "has no effect: version does not contact the daemon")
	return cmd
}
