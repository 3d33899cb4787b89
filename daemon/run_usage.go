package daemon

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cli/terminal"
)

// flagGroups are the groups of the flags of run, in the order of the flags: each begins with
// the flag of this name.
var flagGroups = []struct{ first, title string }{
	{"config", "Configuration files"},
	{"pod-manifest-path", "Manifests"},
	{"container-runtime-endpoint", "Container runtime and images"},
	{"cni-conf-dir", "Network"},
	{"cgroup-root", "Resources of the node"},
	{"hostname-override", "Name and directories"},
	{"api-socket", "API"},
	{"node-labels", "Pods"},
	{"minimum-container-ttl-duration", "Garbage collection and logs of containers"},
	{"image-auto-update-interval", "Updates and rollbacks"},
	{"volume-stats-agg-period", "Statistics and shutdown"},
	{"kubeconfig", "Cluster"},
	{"eviction-hard", "Eviction"},
	{"runonce", "Process"},
}

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
	group := &pflag.FlagSet{SortFlags: false}
	title, next := "Flags", 0
	flush := func() {
		if group.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n%s", title, group.FlagUsagesWrapped(width))
		}
		group = &pflag.FlagSet{SortFlags: false}
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if next < len(flagGroups) && f.Name == flagGroups[next].first {
			flush()
			title = flagGroups[next].title
			next++
		}
		group.AddFlag(f)
	})
	flush()
	_, err := fmt.Fprint(out, b.String())
	return err
}
