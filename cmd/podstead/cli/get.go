package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

// getOptions are the flags of get pods.
type getOptions struct {
	socket    string
	namespace string
	output    string
}

func getCommand() *cobra.Command {
	get := &cobra.Command{
		Use:   "get",
		Short: "Show what runs, or what happened",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("cannot get %q: pods, events, configmaps and secrets can be got, such as with: podstead get pods", args[0])
			}
			return cmd.Help()
		},
	}
	var o getOptions
	pods := &cobra.Command{
		Use:     "pods [NAME...]",
		Aliases: []string{"pod", "po"},
		Short:   "List pods with their state",
		Long: `List the pods of this machine in every namespace.

NAME is a pod's name as its manifest has it, or with the suffix -NODE.
Faults of manifests follow on standard error: a pod of a faulty manifest
runs on with the last good revision.`,
		Example: `  podstead get pods
  podstead get pods web -o yaml
  podstead get pods -n prod -o wide`,
		RunE: func(cmd *cobra.Command, names []string) error { return getPods(cmd, o, names) },
	}
	f := pods.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "only pods of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVarP(&o.output, "output", "o", "", "wide, json, yaml or name")
	get.AddCommand(pods, getEventsCommand(),
		getObjectsCommand(manifest.KindConfigMap, "configmap", "cm"), getObjectsCommand(manifest.KindSecret, "secret", ""))
	return get
}

func getPods(cmd *cobra.Command, o getOptions, names []string) error {
	if !slices.Contains([]string{"", "wide", "json", "yaml", "name"}, o.output) {
		return fmt.Errorf("--output %q: must be wide, json, yaml or name", o.output)
	}
	c := newClient(o.socket)
	var list v1.PodList
	if err := c.get(cmd.Context(), "/pods", &list); err != nil {
		return err
	}
	items, missing := choose(list.Items, o.namespace, names)
	if err := printPods(cmd, o, items, len(names) == 1 && len(missing) == 0); err != nil {
		return err
	}
	for _, name := range missing {
		cmd.PrintErrf("no pod %q%s\n", name, inNamespace(o.namespace))
	}
	if o.output == "" || o.output == "wide" {
		if err := printFaults(cmd, c); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return &ExitError{Code: 1}
	}
	return nil
}

func inNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return " in namespace " + ns
}

// choose keeps the pods asked for, and tells which names match none.
func choose(pods []v1.Pod, namespace string, names []string) (chosen []v1.Pod, missing []string) {
	found := map[string]bool{}
	for _, p := range pods {
		if namespace != "" && p.Namespace != namespace {
			continue
		}
		if len(names) == 0 {
			chosen = append(chosen, p)
			continue
		}
		base := manifest.BaseName(&p)
		for _, n := range names {
			n = bareName(n)
			if n == p.Name || n == base {
				found[n] = true
				chosen = append(chosen, p)
				break
			}
		}
	}
	for _, n := range names {
		if !found[bareName(n)] {
			missing = append(missing, n)
		}
	}
	return chosen, missing
}

// bareName takes the kind off a name, as -o name prints it.
func bareName(n string) string {
	return strings.TrimPrefix(strings.TrimPrefix(n, "pod/"), "pods/")
}

// onePod is the pod that a name means. Of two revisions the one that is not
// ending is meant.
func onePod(cmd *cobra.Command, c *client, namespace, name string) (*v1.Pod, error) {
	var list v1.PodList
	if err := c.get(cmd.Context(), "/pods", &list); err != nil {
		return nil, err
	}
	chosen, _ := choose(list.Items, namespace, []string{name})
	var found *v1.Pod
	for i := range chosen {
		p := &chosen[i]
		switch {
		case found == nil || found.DeletionTimestamp != nil && found.Namespace == p.Namespace:
			found = p
		case found.Namespace != p.Namespace:
			return nil, fmt.Errorf("pod %q is in namespace %s and in %s; choose one with --namespace", name, found.Namespace, p.Namespace)
		}
	}
	if found == nil {
		// A manifest at fault may be why.
		if err := printFaults(cmd, c); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("no pod %q%s; podstead get pods lists them", name, inNamespace(namespace))
	}
	return found, nil
}

// printPods prints in the chosen form; one alone is an object, not a list, as
// kubectl has it.
func printPods(cmd *cobra.Command, o getOptions, pods []v1.Pod, alone bool) error {
	out := cmd.OutOrStdout()
	switch o.output {
	case "name":
		for _, p := range pods {
			if _, err := fmt.Fprintln(out, "pod/"+p.Name); err != nil {
				return err
			}
		}
		return nil
	case "json", "yaml":
		for i := range pods {
			pods[i].Kind, pods[i].APIVersion = "Pod", "v1"
		}
		var object any
		if alone && len(pods) == 1 {
			object = pods[0]
		} else {
			list := v1.PodList{Items: pods}
			if list.Items == nil {
				list.Items = []v1.Pod{}
			}
			list.Kind, list.APIVersion = "PodList", "v1"
			object = list
		}
		return printEncoded(out, object, o.output)
	}
	if len(pods) == 0 {
		cmd.PrintErrf("no pods%s\n", inNamespace(o.namespace))
		return nil
	}
	return podTable(pods, o.output == "wide").print(out)
}

// printFaults tells on standard error which manifests are held back.
func printFaults(cmd *cobra.Command, c *client) error {
	var sources []manifestSource
	if err := c.get(cmd.Context(), "/podstead/v1/manifests", &sources); err != nil {
		return err
	}
	for _, s := range sources {
		if s.Fault != "" {
			cmd.PrintErrf("fault: %s\n", s.Fault)
		}
		for _, u := range s.Units {
			for _, f := range u.Faults {
				cmd.PrintErrf("fault: %s\n", f)
			}
		}
	}
	return nil
}
