package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cmd/podstead/cli/client"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/wait"
)

// defaultTimeout is how long is waited unless somebody says otherwise: time
// enough to pull an image.
const defaultTimeout = 5 * time.Minute

// waitOptions are the flags of wait.
type waitOptions struct {
	socket, namespace string
	condition         string
	labels            string
	files             []string
	all               bool
	timeout           time.Duration
}

func waitCommand() *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait [TYPE] NAME... | TYPE/NAME... | -f FILE",
		Short: "Wait until a pod is ready, is gone, or runs what its manifest says now",
		Long: `Wait until something holds of each named pod (or node):

  ready                  it is ready; an error if it has ended for good
  condition=TYPE[=VALUE] its condition has the value, True unless given
  jsonpath=PATH[=VALUE]  the field has the value, or any
  delete                 it is gone
  revision               what its manifest on disk says now runs, and is ready;
                         with -f all pods of the file. An error at once if the
                         daemon refuses the file
  revision=HASH          the revision with this kubernetes.io/config.hash

A pod need not be there yet. Progress is told on standard error: phase, what
holds it up, image and time. The exit code is 124 when the time is over.`,
		Example: `  podstead wait web --for=ready
  vi /etc/pods/web.yaml && podstead wait web --for=revision
  podstead wait -f /etc/pods/web.yaml --for=revision --timeout=2m
  podstead wait pod/web --for=delete`,
		RunE: func(cmd *cobra.Command, args []string) error { return runWait(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "the `namespace`, needed if several have a pod of this name")
	f.StringVar(&o.condition, "for", "ready", "ready, condition=TYPE[=VALUE], jsonpath=PATH[=VALUE], delete or revision[=HASH]")
	f.StringVarP(&o.labels, "selector", "l", "", "those with these `labels` that are there now")
	f.BoolVar(&o.all, "all", false, "all that are there now")
	f.StringSliceVarP(&o.files, "filename", "f", nil, "with --for=revision, the pods of this `file`")
	f.DurationVar(&o.timeout, "timeout", defaultTimeout, "how long to wait; 0 only looks")
	return cmd
}

func runWait(cmd *cobra.Command, o waitOptions, args []string) error {
	ctx, c := cmd.Context(), client.New(o.socket)
	k, names, err := waitArgs(ctx, c, args)
	if err != nil {
		return err
	}
	if k.Local != nil {
		return usageError(fmt.Errorf("%s cannot be waited for", k.Name))
	}
	w := wait.Waiter{Client: c, Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr(), Timeout: o.timeout, Kind: k}
	if o.labels != "" || o.all {
		l, err := objects.Query{Kind: k, Namespace: o.namespace, Labels: o.labels}.List(ctx, c)
		if err != nil {
			return err
		}
		for _, object := range l.Objects {
			w.Targets = append(w.Targets, &wait.Target{Namespace: object.Namespace, Name: object.Name})
		}
		if len(w.Targets) == 0 {
			return fmt.Errorf("no %s%s to wait for", k.Name, objects.InNamespace(o.namespace))
		}
	}
	for _, name := range names {
		w.Targets = append(w.Targets, &wait.Target{Namespace: o.namespace, Name: name})
	}
	condition, value, hasValue := strings.Cut(o.condition, "=")
	if condition == "revision" && !hasValue {
		if k.Name != "pods" {
			return usageError(fmt.Errorf("--for=revision is for pods, not for %s", k.Name))
		}
		err = w.SetRevisions(ctx, o.files)
	} else {
		if len(o.files) > 0 {
			return usageError(errors.New("--filename goes with --for=revision"))
		}
		err = w.SetCondition(condition, value, hasValue)
	}
	if errors.Is(err, wait.ErrUnknownCondition) {
		err = usageError(fmt.Errorf("--for %q: must be ready, condition=TYPE[=VALUE], jsonpath=PATH[=VALUE], delete or revision[=HASH]", o.condition))
	}
	if err != nil {
		return err
	}
	if len(w.Targets) == 0 {
		return usageError(errors.New("nothing to wait for; name a pod, such as: podstead wait web --for=ready"))
	}
	return w.Run(ctx)
}

// waitArgs reads [TYPE] NAME... and TYPE/NAME...; a name without a type is a pod's.
func waitArgs(ctx context.Context, c *client.Client, args []string) (*objects.Kind, []string, error) {
	k := objects.PodKind()
	if len(args) == 0 {
		return k, nil, nil
	}
	if i := slices.IndexFunc(objects.Kinds(), func(k *objects.Kind) bool { return k.Matches(args[0]) }); i >= 0 {
		k, args = objects.Kinds()[i], args[1:]
	}
	var names []string
	for i, arg := range args {
		word, name, ok := strings.Cut(arg, "/")
		if !ok {
			names = append(names, arg)
			continue
		}
		of, err := objects.FindKind(ctx, c, word)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && of.Name != k.Name {
			return nil, nil, usageError(errors.New("only one type can be waited for"))
		}
		k, names = of, append(names, name)
	}
	return k, names, nil
}
