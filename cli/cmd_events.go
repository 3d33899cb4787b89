package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/output"
)

// eventsOptions are the flags of events.
type eventsOptions struct {
	getOptions
	about string
	types []string
}

func eventsCommand() *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:   "events",
		Short: "List events",
		Long: `List the events of this node and its pods, the most recent last. Events are kept for
a week and survive restarts of the daemon.`,
		Example: `  # List the events of pod web
  podstead events --for pod/web

  # List warnings, then watch for more
  podstead events --types=Warning -w`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runEvents(cmd, o) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only resources in this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces; this is the default")
	f.StringVar(&o.about, "for", "",
		"only events of this `TYPE/NAME`; a name without a type is a pod, which may no longer exist")
	f.StringSliceVar(&o.types, "types", nil, "only events of these types: Normal, Warning")
	f.BoolVarP(&o.watch, "watch", "w", false, "after listing, watch for new events")
	f.StringVarP(&o.Output, "output", "o", "",
		"output format: wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,...")
	f.BoolVar(&o.NoHeaders, "no-headers", false, "do not print headers")
	return cmd
}

func runEvents(cmd *cobra.Command, o eventsOptions) error {
	var fields []string
	switch {
	case len(o.types) > 1 && slices.Contains(o.types, "Normal") && slices.Contains(o.types, "Warning"), len(o.types) == 0:
	case len(o.types) == 1 && (o.types[0] == "Normal" || o.types[0] == "Warning"):
		fields = append(fields, "type="+o.types[0])
	default:
		return usageError(fmt.Errorf("--types %q: must be Normal, Warning or both", strings.Join(o.types, ",")))
	}
	form, err := output.Parse(o.Options)
	if err != nil {
		return usageError(err)
	}
	q := objects.Query{Kind: objects.EventKind(), Namespace: o.namespace, Table: form.IsTable()}
	if o.about != "" {
		word, name, ok := strings.Cut(o.about, "/")
		if !ok {
			word, name = "pod", o.about
		}
		k, err := objects.FindKind(word)
		if err != nil {
			return err
		}
		fields = append(fields, "involvedObject.kind="+objects.KindName(k))
		q.Names = []string{name}
	}
	q.Fields = strings.Join(fields, ",")
	g := getter{cmd: cmd, client: client.New(o.socket), form: form, options: o.getOptions, queries: []objects.Query{q}}
	if !o.watch {
		return g.list(cmd.Context())
	}
	err = g.watch(cmd.Context())
	if errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is the normal way to end a watch
	}
	return err
}
