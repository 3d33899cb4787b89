package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

func describeCommand() *cobra.Command {
	describe := &cobra.Command{
		Use:   "describe",
		Short: "Show all that is known of one thing",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("cannot describe %q: only a pod can be described, with: podstead describe pod NAME", args[0])
			}
			return cmd.Help()
		},
	}
	var o getOptions
	pod := &cobra.Command{
		Use:     "pod NAME",
		Aliases: []string{"pods", "po"},
		Short:   "Show a pod's spec, state, faults and events",
		Long: `Show a pod: where it comes from and what is wrong with its manifest, its
containers with their states, its conditions and volumes, and what happened to it.

NAME is the pod's name as its manifest has it, or with the suffix -NODE.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return describePod(cmd, o, args[0]) },
	}
	f := pod.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	describe.AddCommand(pod)
	return describe
}

// described is what a description is made of.
type described struct {
	pod    *v1.Pod
	unit   manifestUnit
	events []v1.Event
	now    time.Time
}

// manifestSource is the part of a source's view that is shown.
type manifestSource struct {
	Source   string
	Location string
	Fault    string
	Warning  string
	Units    []manifestUnit
}

// manifestUnit is the part of a manifest file's view that is shown.
type manifestUnit struct {
	Name     string
	Digest   string
	Pods     []string
	Restored bool
	Faults   []string
	Warnings []string
}

func describePod(cmd *cobra.Command, o getOptions, name string) error {
	c := newClient(o.socket)
	pod, err := onePod(cmd, c, o.namespace, name)
	if err != nil {
		return err
	}
	d := described{pod: pod, now: time.Now()}
	if d.unit, err = unitOf(cmd, c, pod); err != nil {
		return err
	}
	// Those of an earlier revision have another UID; they tell why it went.
	if d.events, err = askEvents(cmd.Context(), c, pod.Namespace, pod.Name); err != nil {
		return err
	}
	_, err = io.WriteString(cmd.OutOrStdout(), d.text())
	return err
}

// unitOf is the file or URL body that the pod comes from, zero if no source
// has it any more.
func unitOf(cmd *cobra.Command, c *client, pod *v1.Pod) (manifestUnit, error) {
	var sources []manifestSource
	if err := c.get(cmd.Context(), "/podstead/v1/manifests", &sources); err != nil {
		return manifestUnit{}, err
	}
	for _, s := range sources {
		for _, u := range s.Units {
			if slices.Contains(u.Pods, pod.Namespace+"/"+manifest.BaseName(pod)) {
				if s.Fault != "" {
					u.Faults = append(u.Faults, s.Fault)
				}
				return u, nil
			}
		}
	}
	return manifestUnit{}, nil
}
