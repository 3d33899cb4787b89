package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
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
		RunE: func(cmd *cobra.Command, args []string) error { return wait(cmd, o, args) },
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

func wait(cmd *cobra.Command, o waitOptions, args []string) error {
	ctx, c := cmd.Context(), newClient(o.socket)
	k, names, err := waitArgs(ctx, c, args)
	if err != nil {
		return err
	}
	if k.local != nil {
		return usageError(fmt.Errorf("%s cannot be waited for", k.name))
	}
	w := waiter{cmd: cmd, client: c, timeout: o.timeout, kind: k}
	if o.labels != "" || o.all {
		l, err := query{kind: k, namespace: o.namespace, labels: o.labels}.list(ctx, c)
		if err != nil {
			return err
		}
		for _, object := range l.objects {
			w.targets = append(w.targets, &target{namespace: object.Namespace, name: object.Name})
		}
		if len(w.targets) == 0 {
			return fmt.Errorf("no %s%s to wait for", k.name, inNamespace(o.namespace))
		}
	}
	for _, name := range names {
		w.targets = append(w.targets, &target{namespace: o.namespace, name: name})
	}
	condition, value, hasValue := strings.Cut(o.condition, "=")
	if condition == "revision" && !hasValue {
		err = w.awaitFiles(ctx, o)
	} else {
		err = w.await(o, condition, value, hasValue)
	}
	if err != nil {
		return err
	}
	if len(w.targets) == 0 {
		return usageError(errors.New("nothing to wait for; name a pod, such as: podstead wait web --for=ready"))
	}
	return w.run(ctx)
}

// waitArgs reads [TYPE] NAME... and TYPE/NAME...; a name without a type is a pod's.
func waitArgs(ctx context.Context, c *client, args []string) (*kind, []string, error) {
	k := podKind()
	if len(args) == 0 {
		return k, nil, nil
	}
	if i := slices.IndexFunc(kinds(), func(k *kind) bool { return k.is(args[0]) }); i >= 0 {
		k, args = kinds()[i], args[1:]
	}
	var names []string
	for i, arg := range args {
		word, name, ok := strings.Cut(arg, "/")
		if !ok {
			names = append(names, arg)
			continue
		}
		of, err := findKind(ctx, c, word)
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && of.name != k.name {
			return nil, nil, usageError(errors.New("only one type can be waited for"))
		}
		k, names = of, append(names, name)
	}
	return k, names, nil
}

// await sets what is waited for.
func (w *waiter) await(o waitOptions, condition, value string, hasValue bool) error {
	if len(o.files) > 0 {
		return usageError(errors.New("--filename goes with --for=revision"))
	}
	var what until
	switch {
	case condition == "ready" && !hasValue && w.kind.name == "pods":
		what, w.verb = untilReady, "is ready"
	case condition == "ready" && !hasValue:
		what, w.verb = untilCondition("Ready", "True"), "is ready"
	case condition == "delete" && !hasValue:
		what, w.verb = untilGone, "is gone"
	case condition == "condition" && value != "":
		name, state, given := strings.Cut(value, "=")
		if !given {
			state = "True"
		}
		what, w.verb = untilCondition(name, state), "has condition "+name+"="+state
	case condition == "jsonpath" && value != "":
		found, err := untilField(value)
		if err != nil {
			return usageError(fmt.Errorf("--for: %w", err))
		}
		what, w.verb = found, "has "+value
	case condition == "revision" && value != "":
		what, w.verb = untilRevision(value), "runs this revision"
	default:
		return usageError(fmt.Errorf("--for %q: must be ready, condition=TYPE[=VALUE], jsonpath=PATH[=VALUE], delete or revision[=HASH]", o.condition))
	}
	for _, t := range w.targets {
		t.until = what
	}
	return nil
}
