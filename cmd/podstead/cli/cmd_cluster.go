package cli

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "The cluster that this box has joined",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(leaveCommand())
	return cmd
}

func leaveCommand() *cobra.Command {
	var socket string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "leave",
		Short: "Take this box out of its cluster",
		Long: `Take this box out of its cluster: close the node for new pods, evict the cluster's
pods, and remove mirror pods, the lease and the node's object. Pods of files and
URLs run on. The daemon joins again when it is started again with --kubeconfig.`,
		Example: "  podstead cluster leave --timeout=10m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError(errors.New("--timeout must be more than 0"))
			}
			var answer struct{ Leftovers string }
			if err := client.New(socket).Post(cmd.Context(), "/podstead/v1/cluster/leave?timeout="+url.QueryEscape(timeout.String()), &answer); err != nil {
				var refused *client.StatusError
				if errors.As(err, &refused) && refused.Message != "" {
					return errors.New(refused.Message)
				}
				return err
			}
			if answer.Leftovers != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), answer.Leftovers)
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "this box has left its cluster")
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "how long pods may take to go; then the node stays, closed for new ones")
	return cmd
}
