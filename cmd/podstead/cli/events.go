package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// eventsOptions are the flags of events that get has not.
type eventsOptions struct {
	getOptions
	about string
	types []string
}

func eventsCommand() *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Show what happened, the newest last",
		Long: `Show what happened to this machine and its pods, the newest last. It is kept for
a week, over restarts of the daemon.`,
		Example: `  podstead events --for pod/web
  podstead events --types=Warning -w`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return events(cmd, o) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVar(&o.about, "for", "", "only what happened to this `TYPE/NAME`; a name alone is a pod's, which may be gone")
	f.StringSliceVar(&o.types, "types", nil, "only of these types: Normal, Warning")
	f.BoolVarP(&o.watch, "watch", "w", false, "go on with what happens, until Ctrl-C")
	f.StringVarP(&o.output, "output", "o", "", "wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,...")
	f.BoolVar(&o.bare, "no-headers", false, "no line with the names of the columns")
	return cmd
}

func events(cmd *cobra.Command, o eventsOptions) error {
	var fields []string
	switch {
	case len(o.types) > 1 && slices.Contains(o.types, "Normal") && slices.Contains(o.types, "Warning"), len(o.types) == 0:
	case len(o.types) == 1 && (o.types[0] == "Normal" || o.types[0] == "Warning"):
		fields = append(fields, "type="+o.types[0])
	default:
		return usageError(fmt.Errorf("--types %q: must be Normal, Warning or both", strings.Join(o.types, ",")))
	}
	form, err := parseForm(o.getOptions)
	if err != nil {
		return err
	}
	q := query{kind: eventKind(), namespace: o.namespace, table: form.table()}
	if o.about != "" {
		word, name, ok := strings.Cut(o.about, "/")
		if !ok {
			word, name = "pod", o.about
		}
		k, err := findKind(cmd.Context(), newClient(o.socket), word)
		if err != nil {
			return err
		}
		fields = append(fields, "involvedObject.kind="+kindName(k))
		q.names = []string{name}
	}
	q.fields = strings.Join(fields, ",")
	g := getter{cmd: cmd, client: newClient(o.socket), form: form, options: o.getOptions, queries: []query{q}}
	if !o.watch {
		return g.list(cmd.Context())
	}
	err = g.watch(cmd.Context())
	if errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is how one leaves
	}
	return err
}

// kindName is what an object of a kind calls itself, such as Pod or ConfigMap.
func kindName(k *kind) string {
	for _, name := range []string{"Pod", "Node", "Namespace", "Event", "ConfigMap", "Secret", "PersistentVolumeClaim", "PriorityClass", "RuntimeClass"} {
		if strings.EqualFold(name, k.singular) {
			return name
		}
	}
	return title(k.singular)
}
