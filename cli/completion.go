package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/convert"
	"github.com/podstead/podstead/cli/explain"
	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// completionTimeout bounds requests to the daemon while the user waits at a prompt.
const completionTimeout = time.Second

// completeAll adds completion of pods, types, containers and namespaces to every command
// that takes them. A command that has its own completion keeps it.
func completeAll(root *cobra.Command) {
	eachCommand(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil {
			switch cmd.Name() {
			case "get", "describe":
				cmd.ValidArgsFunction = completeObjects
			case "logs", "exec", "attach", "debug", "port-forward":
				cmd.ValidArgsFunction = completeFirst(completePods)
			case "restart", "wait", "auto-update", "delete", "edit", "stats":
				cmd.ValidArgsFunction = completePods
			case "pods":
				if cmd.HasParent() && cmd.Parent().Name() == "top" {
					cmd.ValidArgsFunction = completePods
				}
			case "status", "history", "undo", "retry":
				cmd.ValidArgsFunction = cobra.NoFileCompletions
				if cmd.HasParent() && cmd.Parent().Name() == "rollout" {
					cmd.ValidArgsFunction = completeFirst(completePods)
				}
			case "explain":
				cmd.ValidArgsFunction = completeFirst(completeFields)
			case "version", "kubeconfig", "events", "volumes", "ls", "prune":
				cmd.ValidArgsFunction = cobra.NoFileCompletions
			}
		}
		for name, complete := range map[string]cobra.CompletionFunc{
			"namespace":           completeNamespaces,
			"container":           completeContainers,
			"output":              fixed("wide", "json", "yaml", "name", "jsonpath=", "custom-columns="),
			"manifest-validation": fixed("strict", "warn", "ignore"),
			"dry-run":             fixed("none", "client"),
			"from":                fixed(convert.Kinds...),
			"for":                 fixed("ready", "condition=", "jsonpath=", "delete", "revision"),
			"types":               fixed("Normal", "Warning"),
		} {
			if cmd.Flags().Lookup(name) == nil || name == "for" && cmd.Name() != "wait" {
				continue
			}
			if _, exists := cmd.GetFlagCompletionFunc(name); !exists {
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // the flag exists and has no completion yet
			}
		}
	})
}

// fixed completes one of the words. After a word that ends in = no space is added.
func fixed(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		found := withPrefix(words, "", toComplete, nil)
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(found) == 1 && strings.HasSuffix(found[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
}

// completionClient returns the client and the namespace of a command line.
func completionClient(cmd *cobra.Command) (context.Context, context.CancelFunc, *client.Client, string) {
	socket, namespace := DefaultSocket, ""
	if f := cmd.Flags().Lookup("api-socket"); f != nil {
		socket = f.Value.String()
	}
	if f := cmd.Flags().Lookup("namespace"); f != nil {
		namespace = f.Value.String()
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	return ctx, cancel, client.New(socket), namespace
}

// completeFirst completes the first argument only.
func completeFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return complete(cmd, args, toComplete)
	}
}

// namesOf returns the names of the objects of a kind, none if the daemon does not respond.
func namesOf(cmd *cobra.Command, k *objects.Kind) []string {
	ctx, cancel, c, namespace := completionClient(cmd)
	defer cancel()
	l, err := objects.Query{Kind: k, Namespace: namespace}.List(ctx, c)
	if err != nil {
		return nil
	}
	var names []string
	for _, o := range l.Objects {
		name := o.Name
		if k.Name == "pods" {
			name = objects.PodNames(o)[0]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func completePods(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	prefix := ""
	if word, _, ok := strings.Cut(toComplete, "/"); ok && objects.PodKind().Matches(word) {
		prefix = word + "/"
	}
	return withPrefix(namesOf(cmd, objects.PodKind()), prefix, toComplete, args), cobra.ShellCompDirectiveNoFileComp
}

// withPrefix returns the names, each after prefix, that start with toComplete and are not
// among the arguments yet.
func withPrefix(names []string, prefix, toComplete string, args []string) []string {
	var all []string
	for _, name := range names {
		if name = prefix + name; strings.HasPrefix(name, toComplete) && !slices.Contains(args, name) {
			all = append(all, name)
		}
	}
	return all
}

// completeObjects completes TYPE, then NAME, and TYPE/NAME.
func completeObjects(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	find := func(word string) *objects.Kind {
		known := objects.Kinds()
		if i := slices.IndexFunc(known, func(k *objects.Kind) bool { return k.Matches(word) }); i >= 0 {
			return known[i]
		}
		return nil
	}
	if word, _, ok := strings.Cut(toComplete, "/"); ok {
		if k := find(word); k != nil {
			return withPrefix(namesOf(cmd, k), word+"/", toComplete, args), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) == 0 {
		var types []string
		for _, k := range objects.Kinds() {
			types = append(types, k.Name)
		}
		return withPrefix(types, "", toComplete, nil), cobra.ShellCompDirectiveNoFileComp
	}
	if k := find(args[0]); k != nil {
		return withPrefix(namesOf(cmd, k), "", toComplete, args), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeNamespaces(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return withPrefix(namesOf(cmd, objects.MustKind("namespaces")), "", toComplete, nil),
		cobra.ShellCompDirectiveNoFileComp
}

// completeContainers completes the containers of the pod in the first argument.
func completeContainers(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel, c, namespace := completionClient(cmd)
	defer cancel()
	l, err := objects.Query{Kind: objects.PodKind(), Namespace: namespace,
		Names: []string{objects.TrimPodPrefix(args[0])}}.List(ctx, c)
	if err != nil || len(l.Objects) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := objects.DecodePod(l.Objects[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return withPrefix(objects.ContainerNames(p, podinfo.AllContainers), "", toComplete, nil),
		cobra.ShellCompDirectiveNoFileComp
}

// completeFields completes the next field of a path.
func completeFields(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	dot := strings.LastIndexByte(toComplete, '.')
	if dot < 0 {
		return withPrefix([]string{"pod.spec", "pod.metadata", "spec", "metadata"}, "", toComplete, nil), more
	}
	above, err := explain.Find(toComplete[:dot])
	if err != nil {
		return nil, more
	}
	var names []string
	for _, f := range above.Fields() {
		names = append(names, f.Name)
	}
	return withPrefix(names, toComplete[:dot+1], toComplete, nil), more
}
