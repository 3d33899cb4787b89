package cli

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/output"
)

func imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "images",
		Aliases: []string{"image"},
		Short:   "Show images, pull or load some, or remove those that nothing needs",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Errorf("cannot %q images: there are podstead images ls, pull, load and prune", args[0]))
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(imagesListCommand(), imagesLoadCommand(), imagesPullCommand(), imagesPruneCommand())
	return cmd
}

func imagesListCommand() *cobra.Command {
	var socket, format string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the images of the runtime and why each stays",
		Long: `List the images of the runtime and why each stays:

  used      a container has it, whosever that is
  wanted    a manifest names it
  sandbox   sandboxes are made of it
  pinned    the runtime says that it must stay
  foreign   it was neither pulled nor loaded by this podstead, or others named it too
  unused    nothing keeps it: it goes when its disk fills, or with prune`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, format) {
				return usageError(fmt.Errorf("--output %q: must be json or yaml", format))
			}
			var list []objects.Image
			if err := client.New(socket).Get(cmd.Context(), "/podstead/v1/images", &list); err != nil {
				return err
			}
			if format != "" {
				return output.PrintEncoded(cmd.OutOrStdout(), list, format)
			}
			return objects.ImageTable(list, time.Now()).Print(cmd.OutOrStdout())
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVarP(&format, "output", "o", "", "json or yaml")
	return cmd
}

func imagesPruneCommand() *cobra.Command {
	var socket string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove the images that nothing needs",
		Long: `Remove the images that this podstead pulled or loaded and that neither a container nor a
manifest has. podstead images ls shows them as unused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []objects.Image
			if err := client.New(socket).Post(cmd.Context(), fmt.Sprintf("/podstead/v1/images/prune?dryRun=%t", dryRun), &list); err != nil {
				return err
			}
			return printPruned(cmd, list, dryRun)
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what would be removed")
	return cmd
}

// printPruned tells what was removed; what could not be is an error.
func printPruned(cmd *cobra.Command, list []objects.Image, dryRun bool) error {
	verb := "removed"
	if dryRun {
		verb = "would remove"
	}
	total, failed := uint64(0), 0
	for i := range list {
		m := &list[i]
		if m.Error != "" {
			failed++
			cmd.PrintErrln(m.Error)
			continue
		}
		total += m.Size
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", verb, m.Name, objects.FormatSize(m.Size)); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		cmd.PrintErrln("no image is unused")
	}
	if failed > 0 {
		return &ExitError{Code: 1}
	}
	if len(list) > 0 {
		cmd.PrintErrf("%s %d images, %s\n", verb, len(list), objects.FormatSize(total))
	}
	return nil
}
