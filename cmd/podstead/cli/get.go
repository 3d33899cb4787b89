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

// getOptions are the flags of get.
type getOptions struct {
	socket, namespace string
	labels, fields    string
	output, sortBy    string
	showLabels, bare  bool
	watch, watchOnly  bool
	watchEvents       bool
}

func getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get TYPE[,TYPE...] [NAME...] | TYPE/NAME...",
		Short: "Show what runs, or what happened",
		Long: `Show what runs, or what happened.

TYPE is pods (po), nodes (no), namespaces (ns), events (ev), configmaps (cm),
secrets, persistentvolumeclaims (pvc), priorityclasses (pc), runtimeclasses,
images or volumes.

Without --namespace it is of every namespace. The NAME of a pod is as in its
manifest, or with the suffix -NODE; that of an event may be that of its pod,
which may be gone. After a table of pods, faults of manifests follow on standard
error: a pod of a faulty manifest runs on with the last good revision.

-o json and yaml print what the daemon's Kubernetes API has, one object for one
name, else a List; the fields are those of the API and stay.`,
		Example: `  podstead get pods
  podstead get pods web -o yaml
  podstead get pods -l app=web -w
  podstead get pods -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}'
  podstead get events --field-selector type=Warning`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("nothing to get; name a type, such as: podstead get pods")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return get(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only of this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces, as without --namespace")
	f.StringVarP(&o.labels, "selector", "l", "", "only with these `labels`, such as app=web,tier!=test")
	f.StringVar(&o.fields, "field-selector", "", "only with these `fields`, such as status.phase!=Running")
	f.StringVarP(&o.output, "output", "o", "", "wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEAD:PATH,...")
	f.StringVar(&o.sortBy, "sort-by", "", "sort by the field of this `path`, such as .status.startTime")
	f.BoolVar(&o.showLabels, "show-labels", false, "a column with the labels")
	f.BoolVar(&o.bare, "no-headers", false, "no line with the names of the columns")
	f.BoolVarP(&o.watch, "watch", "w", false, "go on with what changes, until Ctrl-C")
	f.BoolVar(&o.watchOnly, "watch-only", false, "only what changes from now on")
	f.BoolVar(&o.watchEvents, "output-watch-events", false, "with --watch, say of each whether it was ADDED, MODIFIED or DELETED")
	return cmd
}

func get(cmd *cobra.Command, o getOptions, args []string) error {
	form, err := parseForm(o)
	if err != nil {
		return err
	}
	ctx, c := cmd.Context(), newClient(o.socket)
	queries, err := queriesOf(ctx, c, o, args)
	if err != nil {
		return err
	}
	g := getter{cmd: cmd, client: c, form: form, options: o, queries: queries}
	if o.watch || o.watchOnly {
		err := g.watch(ctx)
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C is how one leaves
		}
		return err
	}
	return g.list(ctx)
}

// queriesOf reads TYPE NAME..., TYPE,TYPE and TYPE/NAME....
func queriesOf(ctx context.Context, c *client, o getOptions, args []string) ([]query, error) {
	var queries []query
	add := func(word, name string) error {
		k, err := findKind(ctx, c, word)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(queries, func(q query) bool { return q.kind.name == k.name })
		if at < 0 {
			queries = append(queries, query{kind: k, namespace: o.namespace, labels: o.labels, fields: o.fields, table: o.output == "" || o.output == "wide"})
			at = len(queries) - 1
		}
		if name != "" {
			queries[at].names = append(queries[at].names, name)
		}
		return nil
	}
	if strings.Contains(args[0], "/") {
		for _, arg := range args {
			word, name, ok := strings.Cut(arg, "/")
			if !ok || name == "" {
				return nil, usageError(fmt.Errorf("%q: must be TYPE/NAME as the others", arg))
			}
			if err := add(word, name); err != nil {
				return nil, err
			}
		}
		return queries, nil
	}
	words := strings.Split(args[0], ",")
	if len(words) > 1 && len(args) > 1 {
		return nil, usageError(errors.New("names need one type: podstead get TYPE NAME NAME, or TYPE/NAME TYPE/NAME"))
	}
	for _, word := range words {
		if err := add(word, ""); err != nil {
			return nil, err
		}
	}
	for _, name := range args[1:] {
		if word, bare, ok := strings.Cut(name, "/"); ok && queries[0].kind.is(word) {
			name = bare // as -o name prints it
		}
		queries[0].names = append(queries[0].names, name)
	}
	return queries, nil
}

// getter is one call of get.
type getter struct {
	cmd     *cobra.Command
	client  *client
	form    form
	options getOptions
	queries []query
}

func (g *getter) list(ctx context.Context) error {
	missing, pods := 0, false
	var lists []*listing
	for _, q := range g.queries {
		// The server's table of pods is the one here but for what wide adds.
		q.short = q.kind.name == "pods" && g.form.name == "" && g.form.sortBy == nil && len(q.names) == 0
		l, err := q.list(ctx, g.client)
		if err != nil {
			return err
		}
		lists = append(lists, l)
	}
	if err := g.print(lists); err != nil {
		return err
	}
	for i, q := range g.queries {
		pods = pods || q.kind.name == "pods"
		missing += g.tellMissing(ctx, q, lists[i])
	}
	if pods && g.form.table() {
		if err := printFaults(g.cmd, g.client); err != nil {
			return err
		}
	}
	if missing > 0 {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

// print prints what was found: objects of all kinds as one list, tables one
// after the other.
func (g *getter) print(lists []*listing) error {
	out := g.cmd.OutOrStdout()
	if !g.form.table() {
		var all []*object
		alone, kinds := true, map[*object]*kind{}
		for i, l := range lists {
			// The name of an event is that of whom it is about, who has several.
			alone = alone && len(g.queries[i].names) == 1 && g.queries[i].kind.name != "events"
			for _, o := range l.objects {
				kinds[o] = g.queries[i].kind
			}
			all = append(all, l.objects...)
		}
		alone = alone && len(all) == 1 && len(lists) == 1
		if !alone && len(all) == 0 && len(g.queries) == 1 && len(g.queries[0].names) > 0 {
			return nil // each name is told of
		}
		return g.form.objects(out, all, kinds, alone)
	}
	found := 0
	for i, l := range lists {
		found += len(l.objects)
		if len(l.objects) == 0 {
			continue
		}
		t, err := g.form.tableOf(g.queries[i].kind, l, time.Now())
		if err != nil {
			return err
		}
		if i > 0 && found > len(l.objects) {
			g.cmd.Println()
		}
		if len(lists) > 1 {
			prefixNames(&t, g.queries[i].kind.singular)
		}
		if err := t.print(out); err != nil {
			return err
		}
	}
	if found == 0 && !slices.ContainsFunc(g.queries, func(q query) bool { return len(q.names) > 0 && q.kind.name != "events" }) {
		var names []string
		for _, q := range g.queries {
			names = append(names, q.kind.name)
		}
		g.cmd.PrintErrf("no %s%s\n", strings.Join(names, ", "), inNamespace(g.options.namespace))
	}
	return nil
}

// tellMissing tells of names that nothing has. A pod without events is none
// that is missing.
func (g *getter) tellMissing(ctx context.Context, q query, l *listing) int {
	if q.kind.name == "events" {
		return 0
	}
	missing := q.missing(l.objects)
	for _, name := range missing {
		g.cmd.PrintErrf("no %s %q%s%s\n", q.kind.singular, name, inNamespace(q.namespace), q.near(ctx, g.client, name))
	}
	return len(missing)
}

// watch prints what there is and then each change.
func (g *getter) watch(ctx context.Context) error {
	if len(g.queries) != 1 {
		return usageError(errors.New("only one type can be watched"))
	}
	q := g.queries[0]
	if q.kind.local != nil {
		return usageError(fmt.Errorf("%s cannot be watched", q.kind.name))
	}
	l, err := q.list(ctx, g.client)
	if err != nil {
		return err
	}
	out := g.cmd.OutOrStdout()
	p := watchPrinter{form: g.form, kind: q.kind, out: out, columns: l.columns, events: g.options.watchEvents, layout: layout{screen: screenOf(out)}}
	if !g.options.watchOnly {
		var all []change
		for _, o := range g.form.sorted(l.objects) {
			all = append(all, change{"ADDED", o})
		}
		if err := p.print(all); err != nil {
			return err
		}
	}
	say := func(text string) { g.cmd.PrintErrln(text) }
	return q.follow(ctx, g.client, l, func(ch change) error { return p.print([]change{ch}) }, say)
}

func inNamespace(ns string) string {
	if ns == "" {
		return ""
	}
	return " in namespace " + ns
}

// printFaults tells on standard error which manifests are held back.
func printFaults(cmd *cobra.Command, c *client) error {
	var sources []manifestSource
	if err := c.get(cmd.Context(), "/podstead/v1/manifests", &sources); err != nil {
		return err
	}
	for i := range sources {
		for _, fault := range sources[i].faults() {
			cmd.PrintErrf("fault: %s\n", visible(fault))
		}
		for _, warning := range sources[i].warnings() {
			cmd.PrintErrf("warning: %s\n", visible(warning))
		}
	}
	return nil
}

// prefixNames puts the type before each name, where several types are shown.
func prefixNames(t *table, singular string) {
	at := slices.Index(t.head, "NAME")
	for _, row := range t.rows {
		if at >= 0 && at < len(row) {
			row[at] = singular + "/" + row[at]
		}
	}
}
