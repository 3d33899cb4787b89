package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli/explain"
	"github.com/podstead/podstead/cli/terminal"
)

func explainCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "explain FIELD",
		Short: "Get documentation for a field of a Pod",
		Long: `Describe a field of a Pod: its type, its default, its description in the Kubernetes
API, and how podstead treats it: supported, ignored (accepted without effect) or
unsupported. No daemon is needed.`,
		Example: `  # Describe a field
  podstead explain pod.spec.containers.livenessProbe

  # List all fields below a field
  podstead explain spec.volumes --recursive`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := explain.Find(args[0])
			if err != nil {
				return err
			}
			t := terminal.Detect(cmd.OutOrStdout())
			if t.Width == 0 {
				t.Width = explainWidth
			}
			_, err = io.WriteString(cmd.OutOrStdout(), f.Text(t, recursive))
			return err
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "print the fields of fields")
	cmd.Flags().String("api-socket", DefaultSocket, "has no effect: explain does not contact the daemon")
	return cmd
}

// explainWidth is the width of the text where the output is not a terminal.
const explainWidth = 80
