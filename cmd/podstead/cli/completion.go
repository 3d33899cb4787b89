package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/explain"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
)

// completeTime bounds what is asked while somebody waits at a prompt.
const completeTime = time.Second

// completeAll gives every command that takes pods, types, containers or
// namespaces the names that there are. Where a command completes by itself, it
// is left to that.
func completeAll(root *cobra.Command) {
	eachCommand(root, func(cmd *cobra.Command) {
		if cmd.ValidArgsFunction == nil {
			switch cmd.Name() {
			case "get", "describe":
				cmd.ValidArgsFunction = completeObjects
			case "logs", "exec", "attach", "port-forward":
				cmd.ValidArgsFunction = completeFirst(completePods)
			case "restart", "wait":
				cmd.ValidArgsFunction = completePods
			case "pods":
				if cmd.HasParent() && cmd.Parent().Name() == "top" {
					cmd.ValidArgsFunction = completePods
				}
			case "explain":
				cmd.ValidArgsFunction = completeFirst(completeFields)
			case "status", "version", "kubeconfig", "events", "volumes", "ls", "prune":
				cmd.ValidArgsFunction = cobra.NoFileCompletions
			}
		}
		for name, complete := range map[string]cobra.CompletionFunc{
			"namespace":           completeNamespaces,
			"container":           completeContainers,
			"output":              fixed("wide", "json", "yaml", "name", "jsonpath=", "custom-columns="),
			"manifest-validation": fixed("strict", "warn", "ignore"),
			"for":                 fixed("ready", "condition=", "jsonpath=", "delete", "revision"),
			"types":               fixed("Normal", "Warning"),
		} {
			if cmd.Flags().Lookup(name) == nil || name == "for" && cmd.Name() != "wait" {
				continue
			}
			if _, taken := cmd.GetFlagCompletionFunc(name); !taken {
				_ = cmd.RegisterFlagCompletionFunc(name, complete) // the flag is there, and was not taken
			}
		}
	})
}

// fixed completes one of some words; one that ends in = goes on.
func fixed(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		found := starting(words, "", begun, nil)
		directive := cobra.ShellCompDirectiveNoFileComp
		if len(found) == 1 && strings.HasSuffix(found[0], "=") {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return found, directive
	}
}

// asking is the daemon that a command line names, and what it says of the namespace.
func asking(cmd *cobra.Command) (context.Context, context.CancelFunc, *client.Client, string) {
	socket, namespace := DefaultSocket, ""
	if f := cmd.Flags().Lookup("api-socket"); f != nil {
		socket = f.Value.String()
	}
	if f := cmd.Flags().Lookup("namespace"); f != nil {
		namespace = f.Value.String()
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	return ctx, cancel, client.New(socket), namespace
}

// completeFirst completes the first argument only.
func completeFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return complete(cmd, args, begun)
	}
}

// namesOf are the names of a kind. A daemon that does not answer has none.
func namesOf(cmd *cobra.Command, k *objects.Kind) []string {
	ctx, cancel, c, namespace := asking(cmd)
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

func completePods(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	prefix := ""
	if word, _, ok := strings.Cut(begun, "/"); ok && objects.PodKind().Matches(word) {
		prefix = word + "/"
	}
	return starting(namesOf(cmd, objects.PodKind()), prefix, begun, args), cobra.ShellCompDirectiveNoFileComp
}

// starting are the names, with the prefix, that begin so and are not there yet.
func starting(names []string, prefix, begun string, args []string) []string {
	var all []string
	for _, name := range names {
		if name = prefix + name; strings.HasPrefix(name, begun) && !slices.Contains(args, name) {
			all = append(all, name)
		}
	}
	return all
}

// completeObjects completes TYPE, then NAME, and TYPE/NAME.
func completeObjects(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	find := func(word string) *objects.Kind {
		known := objects.Kinds()
		if i := slices.IndexFunc(known, func(k *objects.Kind) bool { return k.Matches(word) }); i >= 0 {
			return known[i]
		}
		return nil
	}
	if word, _, ok := strings.Cut(begun, "/"); ok {
		if k := find(word); k != nil {
			return starting(namesOf(cmd, k), word+"/", begun, args), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(args) == 0 {
		var types []string
		for _, k := range objects.Kinds() {
			types = append(types, k.Name)
		}
		return starting(types, "", begun, nil), cobra.ShellCompDirectiveNoFileComp
	}
	if k := find(args[0]); k != nil {
		return starting(namesOf(cmd, k), "", begun, args), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func completeNamespaces(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return starting(namesOf(cmd, objects.MustKind("namespaces")), "", begun, nil), cobra.ShellCompDirectiveNoFileComp
}

// completeContainers are those of the pod that was named before.
func completeContainers(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel, c, namespace := asking(cmd)
	defer cancel()
	l, err := objects.Query{Kind: objects.PodKind(), Namespace: namespace, Names: []string{objects.TrimPodPrefix(args[0])}}.List(ctx, c)
	if err != nil || len(l.Objects) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	p, err := objects.DecodePod(l.Objects[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, c := range objects.AllContainers(p) {
		names = append(names, c.Name)
	}
	return starting(names, "", begun, nil), cobra.ShellCompDirectiveNoFileComp
}

// completeFields goes one field further.
func completeFields(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	const more = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	dot := strings.LastIndexByte(begun, '.')
	if dot < 0 {
		return starting([]string{"pod.spec", "pod.metadata", "spec", "metadata"}, "", begun, nil), more
	}
	above, err := explain.Find(begun[:dot])
	if err != nil {
		return nil, more
	}
	var names []string
	for _, f := range above.Fields() {
		names = append(names, f.Name)
	}
	return starting(names, begun[:dot+1], begun, nil), more
}
