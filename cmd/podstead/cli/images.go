package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
)

// image is one as the daemon tells of it.
type image struct {
	Name     string    `json:"name"`
	ID       string    `json:"id"`
	Tags     []string  `json:"tags,omitempty"`
	Size     uint64    `json:"size"`
	State    string    `json:"state"`
	Pulled   time.Time `json:"pulled,omitzero"`
	LastUsed time.Time `json:"lastUsed,omitzero"`
	Error    string    `json:"error,omitempty"`
}

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
	var socket, output string
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
			if !slices.Contains([]string{"", "json", "yaml"}, output) {
				return usageError(fmt.Errorf("--output %q: must be json or yaml", output))
			}
			var list []image
			if err := newClient(socket).get(cmd.Context(), "/podstead/v1/images", &list); err != nil {
				return err
			}
			if output != "" {
				return printEncoded(cmd.OutOrStdout(), list, output)
			}
			return imageTable(list, time.Now()).print(cmd.OutOrStdout())
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().StringVarP(&output, "output", "o", "", "json or yaml")
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
			var list []image
			if err := newClient(socket).post(cmd.Context(), fmt.Sprintf("/podstead/v1/images/prune?dryRun=%t", dryRun), &list); err != nil {
				return err
			}
			return printPruned(cmd, list, dryRun)
		},
	}
	socketFlag(cmd.Flags(), &socket)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what would be removed")
	return cmd
}

func imageTable(list []image, now time.Time) table {
	t := table{head: []string{"IMAGE", "ID", "SIZE", "STATE", "LAST USED"}}
	for i := range list {
		m := &list[i]
		last := "<unknown>"
		switch {
		case m.State == "used":
			last = "now"
		case !m.LastUsed.IsZero():
			last = duration.HumanDuration(now.Sub(m.LastUsed)) + " ago"
		case !m.Pulled.IsZero():
			last = "never"
		}
		t.rows = append(t.rows, []string{m.Name, shortID(m.ID), sizeText(m.Size), m.State, last})
	}
	return t
}

// printPruned tells what was removed; what could not be is an error.
func printPruned(cmd *cobra.Command, list []image, dryRun bool) error {
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
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s (%s)\n", verb, m.Name, sizeText(m.Size)); err != nil {
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
		cmd.PrintErrf("%s %d images, %s\n", verb, len(list), sizeText(total))
	}
	return nil
}

// shortID is enough of an image's ID to tell it from others.
func shortID(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}

// sizeText is a size for people.
func sizeText(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
