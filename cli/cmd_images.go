package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/output"
)

func imagesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "images",
		Aliases: []string{"image"},
		Short:   "List, pull, load and prune images",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(imagesListCommand(), imagesLoadCommand(), imagesPullCommand(), imagesPruneCommand())
	return cmd
}

func imagesListCommand() *cobra.Command {
	var socket, format string
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the images of the runtime and why each is kept",
		Long: `List the images of the runtime and why each is kept:

  used      a container uses it, including containers that podstead does not manage
  wanted    a manifest refers to it
  sandbox   it is the sandbox image
  pinned    the runtime has pinned it
  foreign   it was not pulled or loaded by this podstead, or has tags from others
  unused    nothing keeps it: image garbage collection or prune removes it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "json", "yaml"}, format) {
				return usageError(fmt.Errorf("--output %q: must be json or yaml", format))
			}
			list, err := client.New(socket).Images(cmd.Context())
			if err != nil {
				return err
			}
			if format != "" {
				return output.PrintEncoded(cmd.OutOrStdout(), list, format)
			}
			return objects.ImageTable(list, time.Now()).Print(cmd.OutOrStdout())
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVarP(&format, "output", "o", "", "output format: json or yaml")
	return cmd
}

func imagesPruneCommand() *cobra.Command {
	var socket string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove unused images",
		Long: `Remove the images that this podstead pulled or loaded and that no container and no
manifest uses. podstead images ls shows them as unused.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := client.New(socket).PruneImages(cmd.Context(), dryRun)
			if err != nil {
				return err
			}
			return printPruned(cmd, list, dryRun)
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be removed")
	return cmd
}

// printPruned prints the removed images. An image that could not be removed is an error.
func printPruned(cmd *cobra.Command, list []api.Image, dryRun bool) error {
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
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", verb,
			strings.Join(objects.ImageReferences(m), ", "), objects.FormatSize(m.Size)); err != nil {
			return err
		}
	}
	if len(list) == 0 {
		cmd.PrintErrln("no unused images")
	}
	if failed > 0 {
		return &ExitError{Code: ExitFailed}
	}
	if len(list) > 0 {
		cmd.PrintErrf("%s %d images, %s\n", verb, len(list), objects.FormatSize(total))
	}
	return nil
}
