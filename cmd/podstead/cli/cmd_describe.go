package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/describe"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
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
		RunE: func(cmd *cobra.Command, args []string) error { return runDescribe(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVarP(&o.labels, "selector", "l", "", "only with these `labels`, such as app=web,tier!=test")
	return cmd
}

func runDescribe(cmd *cobra.Command, o getOptions, args []string) error {
	ctx, c := cmd.Context(), client.New(o.socket)
	queries, err := queriesOf(ctx, c, o, args)
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
			cmd.PrintErrf("no %s %q%s%s\n", q.Kind.Singular, name, objects.InNamespace(q.Namespace), q.Suggestion(ctx, c, name))
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
		cmd.PrintErrf("no %s%s\n", queries[0].Kind.Name, objects.InNamespace(o.namespace))
	}
	return nil
}
