package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DefaultSocket is where the daemon answers.
const DefaultSocket = "/run/podstead/podstead.sock"

// Commands are all commands but run. The socket flag is the same for each.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{
		attachCommand(),
		clusterCommand(),
		copyCommand(),
		describeCommand(),
		diffCommand(),
		eventsCommand(),
		execCommand(),
		explainCommand(),
		getCommand(),
		imagesCommand(),
		kubeconfigCommand(),
		logsCommand(),
		portForwardCommand(),
		restartCommand(),
		statusCommand(),
		topCommand(),
		validateCommand(),
		versionCommand(version),
		volumesCommand(),
		waitCommand(),
	}
}

// Finish gives the root, with all its commands in it, what they have in
// common: a command line that is wrong ends with ExitUsage and says where help is.
func Finish(root *cobra.Command) {
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
	})
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	completeAll(root)
	// Made at once: cobra, which makes it when the program runs, has it print its
	// help for a shell that there is not, and succeed.
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args, cmd.RunE = root.Args, root.RunE
		}
	}
	eachCommand(root, func(cmd *cobra.Command) {
		check := cmd.Args
		if check == nil {
			return
		}
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				if text := err.Error(); strings.HasPrefix(text, "accepts ") || strings.HasPrefix(text, "requires ") {
					err = fmt.Errorf("%d arguments are given; it is: %s", len(args), cmd.UseLine())
				}
				return usageError(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
			}
			return nil
		}
	})
}

func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}

// suggestionDistance is how many letters a command may be away from what was
// typed, to be asked whether it was meant; cobra's, where it asks by itself.
const suggestionDistance = 2

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := fmt.Sprintf("; see %s --help", cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = suggestionDistance
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return usageError(fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), hint))
}

// socketFlag adds the flag that names the daemon.
func socketFlag(f *pflag.FlagSet, socket *string) {
	f.StringVar(socket, "api-socket", DefaultSocket, "the daemon's `socket`")
}
