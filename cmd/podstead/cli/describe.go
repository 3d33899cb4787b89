package cli

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest"
)

func describeCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "describe TYPE [NAME...] | TYPE/NAME...",
		Short: "Show all that is known of one thing",
		Long: `Show all that is known of a pod, a node, a ConfigMap and so on; of each, if none
is named. Of a pod: where it comes from and what is wrong with its manifest, its
containers with their states, its conditions and volumes, and what happened to it.

The NAME of a pod is as in its manifest, or with the suffix -NODE. What Secrets
hold is not shown.`,
		Example: `  podstead describe pod web
  podstead describe node`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("nothing to describe; name a type and an object, such as: podstead describe pod web")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return describe(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVarP(&o.labels, "selector", "l", "", "only with these `labels`, such as app=web,tier!=test")
	return cmd
}

func describe(cmd *cobra.Command, o getOptions, args []string) error {
	ctx, c := cmd.Context(), newClient(o.socket)
	queries, err := queriesOf(ctx, c, o, args)
	if err != nil {
		return err
	}
	d := describer{cmd: cmd, client: c}
	missing := 0
	for _, q := range queries {
		if q.kind.name == "pods" && len(q.names) > 0 {
			for _, name := range q.names {
				pod, err := onePod(cmd, c, q.namespace, name)
				if err != nil {
					return err
				}
				if err := d.pod(pod); err != nil {
					return err
				}
			}
			continue
		}
		q.table = false
		l, err := q.list(ctx, c)
		if err != nil {
			return err
		}
		for _, name := range q.missing(l.objects) {
			missing++
			cmd.PrintErrf("no %s %q%s%s\n", q.kind.singular, name, inNamespace(q.namespace), q.near(ctx, c, name))
		}
		for _, object := range l.objects {
			if err := d.object(q.kind, object); err != nil {
				return err
			}
		}
	}
	if missing > 0 {
		return &ExitError{Code: ExitFailed}
	}
	if d.printed == 0 {
		cmd.PrintErrf("no %s%s\n", queries[0].kind.name, inNamespace(o.namespace))
	}
	return nil
}

// describer is one call of describe.
type describer struct {
	cmd     *cobra.Command
	client  *client
	printed int
}

// print prints a description, apart from the one before.
func (d *describer) print(text string) error {
	if d.printed++; d.printed > 1 {
		text = "\n\n" + text
	}
	_, err := io.WriteString(d.cmd.OutOrStdout(), text)
	return err
}

func (d *describer) object(k *kind, o *object) error {
	ctx := d.cmd.Context()
	if k.name == "pods" {
		pod, err := podOf(o)
		if err != nil {
			return err
		}
		return d.pod(pod)
	}
	var happened []v1.Event
	if k.local == nil && k.name != "events" {
		var err error
		if happened, err = askEvents(ctx, d.client, kindName(k), o.Namespace, o.Name); err != nil {
			return err
		}
	}
	if k.name == "nodes" {
		text, err := d.node(o, happened)
		if err != nil {
			return err
		}
		return d.print(text)
	}
	text, err := d.plain(k, o, happened)
	if err != nil {
		return err
	}
	return d.print(text)
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
	Source    string
	Location  string
	Delivered bool
	Time      time.Time
	Fault     string
	Warning   string
	Units     []manifestUnit
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

// faults are those of the source as a whole and of each of its manifests.
func (s *manifestSource) faults() (all []string) {
	if s.Fault != "" {
		all = append(all, s.Fault)
	}
	for _, u := range s.Units {
		all = append(all, u.Faults...)
	}
	return all
}

// warnings hold nothing back.
func (s *manifestSource) warnings() (all []string) {
	if s.Warning != "" {
		all = append(all, s.Warning)
	}
	for _, u := range s.Units {
		all = append(all, u.Warnings...)
	}
	return all
}

func (d *describer) pod(pod *v1.Pod) error {
	of := described{pod: pod, now: time.Now()}
	var err error
	if of.unit, err = unitOf(d.cmd, d.client, pod); err != nil {
		return err
	}
	// Those of an earlier revision have another UID; they tell why it went.
	if of.events, err = askEvents(d.cmd.Context(), d.client, "Pod", pod.Namespace, pod.Name); err != nil {
		return err
	}
	return d.print(of.text())
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
