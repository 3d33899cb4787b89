package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DefaultSocket is the path of the daemon's API socket.
const DefaultSocket = "/run/podstead/podstead.sock"

// socketVariable is the environment variable with the default of --api-socket.
const socketVariable = "PODSTEAD_API_SOCKET"

// Commands returns all commands except run and check. Each has the flag --api-socket.
func Commands(version Version) []*cobra.Command {
	return []*cobra.Command{
		applyCommand(),
		attachCommand(),
		autoUpdateCommand(),
		clusterCommand(),
		convertCommand(),
		copyCommand(),
		createCommand(),
		debugCommand(),
		deleteCommand(),
		describeCommand(),
		diffCommand(),
		editCommand(),
		eventsCommand(),
		execCommand(),
		explainCommand(),
		getCommand(),
		imagesCommand(),
		kubeconfigCommand(),
		logsCommand(),
		portForwardCommand(),
		restartCommand(),
		rolloutCommand(),
		setCommand(),
		statusCommand(),
		topCommand(),
		statsCommand(),
		validateCommand(),
		versionCommand(version),
		volumesCommand(),
		waitCommand(),
	}
}

// Finish completes the root command once all commands are added: a wrong command line
// exits with ExitUsage and refers to the help.
func Finish(root *cobra.Command) {
	root.SetHelpFunc(Help(""))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		// Flags of a command that does not exist are unknown too.
		if names := cmd.Flags().Args(); cmd == root && len(names) > 0 {
			return unknownCommand(cmd, names[0])
		}
		return usageError(fmt.Errorf("%w; see %s --help", flagError(err), cmd.CommandPath()))
	})
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return unknownCommand(cmd, args[0])
	}
	completeAll(root)
	groupCommands(root)
	// Created here because cobra, which would create it on execution, makes it print
	// its help and succeed for a shell that does not exist.
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
					err = argumentError(cmd, args)
				}
				if strings.HasPrefix(err.Error(), "unknown command ") {
					if cmd.HasSubCommands() {
						return unknownCommand(cmd, args[0])
					}
					err = unexpectedArgument(cmd, args[0])
				}
				return usageError(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
			}
			return nil
		}
	})
}

// unexpectedArgument describes an argument of a command that takes none, for which cobra reports that
// it is an unknown command.
func unexpectedArgument(cmd *cobra.Command, arg string) error {
	if cmd.Name() == "run" {
		return fmt.Errorf("unexpected argument %q: podstead run starts the daemon; to start a pod, podstead apply -f FILE",
			arg)
	}
	return fmt.Errorf("unexpected argument %q: %s takes none", arg, cmd.CommandPath())
}

// argumentError describes a wrong number of arguments.
func argumentError(cmd *cobra.Command, args []string) error {
	if words := strings.Fields(cmd.Use); len(args) == 0 && len(words) > 1 {
		return fmt.Errorf("%s is missing; usage: %s", strings.TrimSuffix(words[1], "..."), cmd.UseLine())
	}
	return fmt.Errorf("unexpected number of arguments (%d); usage: %s", len(args), cmd.UseLine())
}

// flagError reports what the value of a flag must be, instead of which Go function failed to
// parse it.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	must := ""
	switch invalid.GetFlag().Value.Type() {
	case "int", "int32", "int64":
		must = "an integer"
	case "duration":
		must = "a duration, such as 10s"
	case "bool":
		must = "true or false"
	default:
		return err
	}
	return fmt.Errorf("--%s %q: must be %s", invalid.GetFlag().Name, invalid.GetValue(), must)
}

func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}

// suggestionDistance is the maximum edit distance of a suggested command; it is cobra's
// own default.
const suggestionDistance = 2

// shortName is the length up to which a name may differ in one letter only: with two of three, it
// is another word.
const shortName = 3

// otherCommands reports what does the work of commands that other tools have.
var otherCommands = map[string]string{
	"stop":    "to stop a pod, podstead delete POD; to start its containers again, podstead restart POD",
	"start":   "to start a pod, podstead apply -f FILE",
	"kill":    "to stop a pod, podstead delete POD",
	"rm":      "to stop and remove a pod, podstead delete POD",
	"remove":  "to stop and remove a pod, podstead delete POD",
	"down":    "to stop and remove pods, podstead delete -f FILE",
	"up":      "to start pods, podstead apply -f FILE",
	"ps":      "to list pods, podstead get pods",
	"ls":      "to list pods, podstead get pods",
	"list":    "to list pods, podstead get pods",
	"inspect": "to see a pod, podstead describe pod POD",
	"pull":    "to pull an image, podstead images pull IMAGE",
	"load":    "to load images of an archive, podstead images load FILE",

	"rollback": "to return to an earlier revision of a pod, podstead rollout undo POD",
	"undo":     "to return to an earlier revision of a pod, podstead rollout undo POD",
	"history":  "to list the revisions of a pod, podstead rollout history POD",
	"update":   "to change a pod, podstead apply -f FILE; to update its images, podstead auto-update POD",
	"upgrade": "to upgrade podstead, install the newer package: no container restarts; to change a pod, podstead apply " +
		"-f FILE",
	"compose": "to turn a Compose file into manifests, podstead convert FILE",
	"play":    "to run a manifest, podstead apply -f FILE",
	"kube":    "to run a manifest, podstead apply -f FILE",
	"init": "nothing has to be initialized: podstead check finds what the host lacks, and podstead apply -f FILE runs a " +
		"pod",
	"config": "the configuration is /etc/podstead/config.yaml, checked by podstead check; for kubectl, podstead " +
		"kubeconfig",
	"login": "credentials of registries are in /var/lib/podstead/config.json, in the format of docker, or in " +
		"imagePullSecrets of a pod",
	"backup": "the data of a claim is a directory, which podstead volumes shows; manifests are the files in /etc/pods",
	"secret": "a Secret is a document of a manifest: podstead apply -f FILE; to list them, podstead get secrets",
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := fmt.Sprintf("; see %s --help", cmd.CommandPath())
	if cmd.HasParent() {
		hint = "; its commands are " + strings.Join(availableCommands(cmd), ", ")
	}
	if other := otherCommands[name]; other != "" && !cmd.HasParent() {
		return usageError(fmt.Errorf("unknown command %q for %q; %s", name, cmd.CommandPath(), other))
	}
	cmd.SuggestionsMinimumDistance = suggestionDistance
	if len(name) <= shortName {
		cmd.SuggestionsMinimumDistance = 1
	}
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean %s %s?", cmd.CommandPath(), near[0])
	}
	return usageError(fmt.Errorf("unknown command %q for %q%s", name, cmd.CommandPath(), hint))
}

func availableCommands(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// socketFlag adds the flag --api-socket.
func socketFlag(f *pflag.FlagSet, socket *string) {
	f.StringVar(socket, "api-socket", cmp.Or(os.Getenv(socketVariable), DefaultSocket),
		"`path` of the daemon's API socket; the environment variable "+socketVariable+" changes the default")
}
