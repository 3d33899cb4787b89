package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/explain"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
)

func explainCommand() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "explain FIELD",
		Short: "Explain a field of a Pod, and what podstead does with it",
		Long: `Explain a field of a Pod: its type, its default, what it is for in the words of
the Kubernetes API, and what podstead does with it: it is honoured, inert
(accepted, and nothing depends on it) or refused. No daemon is needed.`,
		Example: `  podstead explain pod.spec.containers.livenessProbe
  podstead explain spec.volumes --recursive`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := explain.Find(args[0])
			if err != nil {
				return err
			}
			screen := terminal.Detect(cmd.OutOrStdout())
			if screen.Width == 0 {
				screen.Width = explainWidth
			}
			_, err = io.WriteString(cmd.OutOrStdout(), f.Text(screen, recursive))
			return err
		},
	}
	cmd.Flags().BoolVar(&recursive, "recursive", false, "the names of all fields below it too")
	cmd.Flags().String("api-socket", DefaultSocket, "unused: explain asks no daemon")
	return cmd
}

// explainWidth is the width of what is no terminal.
const explainWidth = 80
