package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
)

func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Manage the cluster membership of this node",
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
		Short: "Remove this node from its cluster",
		Long: `Remove this node from its cluster: cordon the node, evict the pods that the cluster
bound to it, and delete the mirror pods, the lease and the Node object. Pods from
files and URLs keep running. The daemon joins the cluster again when it is restarted
with --kubeconfig.`,
		Example: "  podstead cluster leave --timeout=10m",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usageError(errors.New("--timeout must be greater than 0"))
			}
			result, err := client.New(socket).LeaveCluster(cmd.Context(), timeout)
			if err != nil {
				return err
			}
			if result.Leftovers != "" {
				fmt.Fprintln(cmd.ErrOrStderr(), result.Leftovers)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "node removed from its cluster")
			return err
		},
	}
	socketFlag(cmd.Flags(), &socket)
	durationVar(cmd.Flags(), &timeout, "timeout", defaultTimeout,
		"how long to wait for pods to terminate; after that the command fails and the node stays cordoned")
	return cmd
}
