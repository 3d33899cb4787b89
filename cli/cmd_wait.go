package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/wait"
)

// defaultTimeout is the default of --timeout: long enough to pull an image.
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
		Short: "Wait for a condition on one or more resources",
		Long: `Wait for a condition on each given pod or node:

  ready                  it is ready; fails at once if the pod has completed or failed
  condition=TYPE[=VALUE] the condition has the value, True by default
  jsonpath=PATH[=VALUE]  the field has the value, or any value
  delete                 it is deleted or does not exist
  revision               it runs its current manifest on disk and is ready; with -f all
                         pods of the file. Fails at once if the manifest is invalid
  revision=HASH          it runs the revision with this kubernetes.io/config.hash

The pod does not have to exist yet. Progress is printed to standard error: state,
reason, image and elapsed time, and again every 30 seconds. The exit code is 124 after a
timeout, and 1 after 30 seconds in which the container runtime could not start any pod.`,
		Example: `  # Wait until pod web is ready
  podstead wait web --for=ready

  # Edit a manifest and wait until the pod runs it
  vi /etc/pods/web.yaml && podstead wait web --for=revision

  # Wait for all pods of a file, for at most 2 minutes
  podstead wait -f /etc/pods/web.yaml --for=revision --timeout=2m

  # Wait until pod web is deleted
  podstead wait pod/web --for=delete`,
		RunE: func(cmd *cobra.Command, args []string) error { return runWait(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "",
		"`namespace` of the resource; required if several namespaces have one of this name")
	f.StringVar(&o.condition, "for", "ready",
		"condition to wait for: ready, condition=TYPE[=VALUE], jsonpath=PATH[=VALUE], delete or revision[=HASH]")
	f.StringVarP(&o.labels, "selector", "l", "", "wait for existing resources that match this label `selector`")
	f.BoolVar(&o.all, "all", false, "wait for all existing resources of the type")
	f.StringSliceVarP(&o.files, "filename", "f", nil, "with --for=revision, wait for the pods of this `file`")
	durationVar(f, &o.timeout, "timeout", defaultTimeout, "how long to wait; 0 checks once")
	return cmd
}

func runWait(cmd *cobra.Command, o waitOptions, args []string) error {
	ctx, c := cmd.Context(), client.New(o.socket)
	k, names, err := waitArgs(args)
	if err != nil {
		return err
	}
	if k.Local != nil {
		return usageError(fmt.Errorf("cannot wait for %s", k.Name))
	}
	w := wait.Waiter{Client: c, Out: cmd.OutOrStdout(), ErrOut: cmd.ErrOrStderr(), Timeout: o.timeout, Kind: k}
	if o.labels != "" || o.all {
		l, err := objects.Query{Kind: k, Namespace: o.namespace, Labels: o.labels}.List(ctx, c)
		if err != nil {
			return err
		}
		for _, object := range l.Objects {
			w.Targets = append(w.Targets, &wait.Target{Namespace: object.Namespace, Name: object.Name, Existed: true})
		}
		if len(w.Targets) == 0 {
			return fmt.Errorf("no %s found%s", k.Name, objects.InNamespace(o.namespace))
		}
	}
	for _, name := range names {
		w.Targets = append(w.Targets, &wait.Target{Namespace: o.namespace, Name: name})
	}
	condition, value, hasValue := strings.Cut(o.condition, "=")
	if condition == "revision" && !hasValue {
		if k.Name != "pods" {
			return usageError(fmt.Errorf("--for=revision requires pods, not %s", k.Name))
		}
		err = w.SetRevisions(ctx, o.files)
	} else {
		if len(o.files) > 0 {
			return usageError(errors.New("--filename requires --for=revision"))
		}
		err = w.SetCondition(condition, value, hasValue)
	}
	if errors.Is(err, wait.ErrUnknownCondition) {
		err = usageError(fmt.Errorf("--for %q: must be ready, condition=TYPE[=VALUE], jsonpath=PATH[=VALUE], delete or "+
			"revision[=HASH]", o.condition))
	}
	if err != nil {
		return err
	}
	if len(w.Targets) == 0 {
		return usageError(errors.New("nothing to wait for; use for example: podstead wait web --for=ready"))
	}
	return w.Run(ctx)
}

// waitArgs parses [TYPE] NAME... and TYPE/NAME...; the type defaults to pods.
func waitArgs(args []string) (*objects.Kind, []string, error) {
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
		of, err := objects.FindKind(word)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && of.Name != k.Name {
			return nil, nil, usageError(errors.New("cannot wait for more than one resource type"))
		}
		k, names = of, append(names, name)
	}
	return k, names, nil
}
