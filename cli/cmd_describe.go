package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/describe"
	"github.com/podstead/podstead/cli/objects"
)

func describeCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "describe TYPE [NAME...] | TYPE/NAME...",
		Short: "Show details of one or more resources",
		Long: `Show details of a pod, a node, a ConfigMap or another resource, or of all resources of
the type if no NAME is given. For a pod these are its manifest and the errors in it,
its containers with their states, its conditions, volumes and events.

The NAME of a pod is the name in its manifest, or that name with the suffix -NODE.
The data of Secrets is not shown.`,
		Example: `  # Describe a pod
  podstead describe pod web

  # Describe the node
  podstead describe node`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("no resource type given; use for example: podstead describe pod web")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runDescribe(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only resources in this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces; this is the default")
	f.StringVarP(&o.labels, "selector", "l", "", "label `selector`, such as app=web,tier!=test")
	return cmd
}

func runDescribe(cmd *cobra.Command, o getOptions, args []string) error {
	ctx, c := cmd.Context(), client.New(o.socket)
	queries, err := parseQueries(o, args)
	if err != nil {
		return err
	}
	d := describe.New(c, cmd.OutOrStdout())
	missing := 0
	for _, q := range queries {
		if q.Kind.Name == "pods" && len(q.Names) > 0 {
			for _, name := range q.Names {
				pod, err := objects.FindPod(ctx, c, q.Namespace, name, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				if err := d.Pod(ctx, pod); err != nil {
					return err
				}
			}
			continue
		}
		q.Table = false
		l, err := q.List(ctx, c)
		if err != nil {
			return err
		}
		for _, name := range q.Missing(l.Objects) {
			missing++
			cmd.PrintErrf("%s %q not found%s%s\n", q.Kind.Singular, name, objects.InNamespace(q.Namespace),
				q.Suggestion(ctx, c, name))
		}
		for _, object := range l.Objects {
			if err := d.Object(ctx, q.Kind, object); err != nil {
				return err
			}
		}
	}
	if missing > 0 {
		return &ExitError{Code: ExitFailed}
	}
	if d.Printed == 0 {
		cmd.PrintErrf("no %s found%s\n", queries[0].Kind.Name, objects.InNamespace(o.namespace))
	}
	return nil
}
