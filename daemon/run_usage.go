package daemon

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/config"
)

// usageWidth is the width of the flags' descriptions where there is no terminal.
const usageWidth = 120

// groupedUsage prints the usage of a command with its flags in groups, wrapped.
func groupedUsage(cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	width := terminal.Detect(out).Width
	if width == 0 {
		width = usageWidth
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	title, group := "", &pflag.FlagSet{SortFlags: false}
	flush := func() {
		if group.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", title, group.FlagUsagesWrapped(width))
		}
		group = &pflag.FlagSet{SortFlags: false}
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		// Flags of no group, which are the kubelet's hidden ones and --help, are in the last one.
		if of := f.Annotations[config.GroupAnnotation]; len(of) > 0 && of[0] != title {
			flush()
			title = of[0]
		}
		group.AddFlag(f)
	})
	flush()
	_, err := fmt.Fprint(out, b.String())
	return err
}
