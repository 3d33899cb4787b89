package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/output"
	"github.com/podstead/podstead/cli/terminal"
)

// getOptions are the flags of get.
type getOptions struct {
	socket, namespace string
	labels, fields    string
	output.Options
	watch, watchOnly bool
	watchEvents      bool
	// files are those that declare the objects to be shown.
	files []string
}

func getCommand() *cobra.Command {
	var o getOptions
	cmd := &cobra.Command{
		Use:   "get TYPE[,TYPE...] [NAME...] | TYPE/NAME... | -f FILE",
		Short: "Display one or many resources",
		Long: `Display one or many resources.

TYPE is pods (po), nodes (no), namespaces (ns), events (ev), configmaps (cm),
secrets, persistentvolumeclaims (pvc), persistentvolumes (pv), storageclasses (sc),
priorityclasses (pc), runtimeclasses, images or volumes.

Without --namespace, resources in all namespaces are listed. The NAME of a pod is
the name in its manifest, or that name with the suffix -NODE. The NAME of an event
may be the name of its pod, which may no longer exist.

After a table of pods, standard error says why pods do not run or are not ready, with
the last line of the log of a crashed container or the last failure of a probe, what a
terminating pod waits for, and whether the node is not ready or under pressure. It shows
errors in manifests: a pod whose manifest is invalid keeps running with its last good
revision.

-o json and -o yaml print the objects of the daemon's Kubernetes API: a single
object if one NAME is given, otherwise a List. The fields are those of the API and
are stable.`,
		Example: `  # List all pods
  podstead get pods

  # Print a pod as YAML
  podstead get pods web -o yaml

  # Watch the pods with a label
  podstead get pods -l app=web -w

  # Print the names of all pods
  podstead get pods -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{end}'

  # List what a file declares
  podstead get -f web.yaml

  # List warnings
  podstead get events --field-selector type=Warning`,
		Args: func(_ *cobra.Command, args []string) error { return checkGetArgs(args, o) },
		RunE: func(cmd *cobra.Command, args []string) error { return runGet(cmd, o, args) },
	}
	f := cmd.Flags()
	socketFlag(f, &o.socket)
	f.StringVarP(&o.namespace, "namespace", "n", "", "only resources in this `namespace`")
	f.BoolP("all-namespaces", "A", true, "all namespaces; this is the default")
	f.StringSliceVarP(&o.files, "filename", "f", nil,
		"list what this `file` or directory declares, or - for standard input")
	f.StringVarP(&o.labels, "selector", "l", "", "label `selector`, such as app=web,tier!=test")
	f.StringVar(&o.fields, "field-selector", "", "field `selector`, such as status.phase!=Running")
	f.StringVarP(&o.Output, "output", "o", "",
		"output format: wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH,...")
	f.StringVar(&o.SortBy, "sort-by", "", "sort by the field at this JSONPath `expression`, such as .status.startTime")
	f.BoolVar(&o.ShowLabels, "show-labels", false, "show labels as the last column")
	f.StringSliceVarP(&o.LabelColumns, "label-columns", "L", nil, "show these `labels` as columns, such as app,tier")
	f.BoolVar(&o.NoHeaders, "no-headers", false, "do not print headers")
	f.BoolVarP(&o.watch, "watch", "w", false, "after listing, watch for changes")
	f.BoolVar(&o.watchOnly, "watch-only", false, "watch for changes without listing first")
	f.BoolVar(&o.watchEvents, "output-watch-events", false,
		"with --watch, print the type of each change: ADDED, MODIFIED or DELETED")
	return cmd
}

func runGet(cmd *cobra.Command, o getOptions, args []string) error {
	form, err := output.Parse(o.Options)
	if err != nil {
		return usageError(err)
	}
	ctx, c := cmd.Context(), client.New(o.socket)
	var queries []objects.Query
	if len(o.files) > 0 {
		queries, err = fileQueries(cmd, o)
	} else {
		queries, err = parseQueries(o, args)
	}
	if err != nil {
		return err
	}
	g := getter{cmd: cmd, client: c, form: form, options: o, queries: queries}
	if o.watch || o.watchOnly {
		err := g.watch(ctx)
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C is the normal way to end a watch
		}
		return err
	}
	return g.list(ctx)
}

// parseQueries parses TYPE NAME..., TYPE,TYPE and TYPE/NAME....
func parseQueries(o getOptions, args []string) ([]objects.Query, error) {
	var queries []objects.Query
	add := func(word, name string) error {
		k, err := objects.FindKind(word)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(queries, func(q objects.Query) bool { return q.Kind.Name == k.Name })
		if at < 0 {
			queries = append(queries, objects.Query{Kind: k, Namespace: o.namespace, Labels: o.labels, Fields: o.fields,
				Table: o.Output == "" || o.Output == "wide"})
			at = len(queries) - 1
		}
		if name != "" {
			queries[at].Names = append(queries[at].Names, name)
		}
		return nil
	}
	if strings.Contains(args[0], "/") {
		for _, arg := range args {
			word, name, ok := strings.Cut(arg, "/")
			if !ok || name == "" {
				return nil, usageError(fmt.Errorf("%q: must be TYPE/NAME like the other arguments", arg))
			}
			if err := add(word, name); err != nil {
				return nil, err
			}
		}
		return queries, nil
	}
	words := strings.Split(args[0], ",")
	if len(words) > 1 && len(args) > 1 {
		return nil, usageError(errors.New("names require a single type; use TYPE NAME NAME or TYPE/NAME TYPE/NAME"))
	}
	for _, word := range words {
		if err := add(word, ""); err != nil {
			return nil, err
		}
	}
	for _, name := range args[1:] {
		if word, bare, ok := strings.Cut(name, "/"); ok && queries[0].Kind.Matches(word) {
			name = bare // the form that -o name prints
		}
		queries[0].Names = append(queries[0].Names, name)
	}
	return queries, nil
}

// getter is one invocation of get.
type getter struct {
	cmd     *cobra.Command
	client  *client.Client
	form    output.Format
	options getOptions
	queries []objects.Query
}

func (g *getter) list(ctx context.Context) error {
	missing, pods := 0, false
	var lists []*objects.List
	for i, q := range g.queries {
		// The server's table of pods has the same columns as the local one, except those
		// of -o wide.
		q.MetadataOnly = q.Kind.Name == "pods" && g.form.Name == "" && g.form.SortBy == nil && len(q.Names) == 0
		l, err := q.List(ctx, g.client)
		if err != nil {
			return err
		}
		if q.Kind.Name == "pods" && g.form.Name == "wide" {
			g.addCauses(ctx, l)
		}
		lists, g.queries[i] = append(lists, l), q
	}
	if err := g.print(lists); err != nil {
		return err
	}
	for i, q := range g.queries {
		pods = pods || q.Kind.Name == "pods"
		if q.Kind.Name == "pods" && g.form.Name == "" {
			g.printCauses(ctx, q, lists[i])
		}
		missing += g.printMissing(ctx, q, lists[i])
	}
	if pods && g.form.IsTable() {
		if err := objects.PrintNode(ctx, g.client, g.cmd.ErrOrStderr(), time.Now()); err != nil {
			return err
		}
		if err := objects.PrintFaults(ctx, g.client, g.cmd.ErrOrStderr()); err != nil {
			return err
		}
		if err := objects.PrintRollouts(ctx, g.client, g.cmd.ErrOrStderr(), time.Now()); err != nil {
			return err
		}
	}
	if missing > 0 {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

// print prints what was found: objects of all kinds as one list, or one table per kind.
func (g *getter) print(lists []*objects.List) error {
	out := g.cmd.OutOrStdout()
	if !g.form.IsTable() {
		var all []*objects.Object
		single, kinds := true, map[*objects.Object]*objects.Kind{}
		for i, l := range lists {
			// Several events may have the name of one object.
			single = single && len(g.queries[i].Names) == 1 && g.queries[i].Kind.Name != "events"
			for _, o := range l.Objects {
				kinds[o] = g.queries[i].Kind
			}
			all = append(all, l.Objects...)
		}
		single = single && len(all) == 1 && len(lists) == 1
		if !single && len(all) == 0 && len(g.queries) == 1 && len(g.queries[0].Names) > 0 {
			return nil // printMissing reports each name
		}
		return g.form.PrintObjects(out, all, kinds, single)
	}
	found := 0
	for i, l := range lists {
		found += len(l.Objects)
		if len(l.Objects) == 0 {
			continue
		}
		t, err := g.form.Table(g.queries[i].Kind, l, time.Now())
		if err != nil {
			return err
		}
		if i > 0 && found > len(l.Objects) {
			if _, err := fmt.Fprintln(out); err != nil {
				return err
			}
		}
		if len(lists) > 1 {
			prefixNames(&t, g.queries[i].Kind.Singular)
		}
		if err := t.Print(out); err != nil {
			return err
		}
	}
	if found == 0 && !slices.ContainsFunc(g.queries,
		func(q objects.Query) bool { return len(q.Names) > 0 && q.Kind.Name != "events" }) {
		var names []string
		for _, q := range g.queries {
			names = append(names, q.Kind.Name)
		}
		g.cmd.PrintErrf("no %s found%s\n", strings.Join(names, ", "), objects.InNamespace(g.options.namespace))
	}
	return nil
}

// printMissing reports names that no object has and returns their number. A pod without
// events is not missing.
func (g *getter) printMissing(ctx context.Context, q objects.Query, l *objects.List) int {
	if q.Kind.Name == "events" {
		return 0
	}
	missing := q.Missing(l.Objects)
	for _, name := range missing {
		g.cmd.PrintErrf("%s %q not found%s%s\n", q.Kind.Singular, name, objects.InNamespace(q.Namespace),
			q.Suggestion(ctx, g.client, name))
	}
	return len(missing)
}

// watch prints the objects and then each change.
func (g *getter) watch(ctx context.Context) error {
	if len(g.queries) != 1 {
		return usageError(errors.New("only one type can be watched"))
	}
	q := g.queries[0]
	if q.Kind.Local != nil {
		return usageError(fmt.Errorf("%s cannot be watched", q.Kind.Name))
	}
	l, err := q.List(ctx, g.client)
	if err != nil {
		return err
	}
	out := g.cmd.OutOrStdout()
	p := output.WatchPrinter{Format: g.form, Kind: q.Kind, Out: out, Columns: l.Columns, ShowEvents: g.options.watchEvents,
		Layout: terminal.Layout{Terminal: terminal.Detect(out)}}
	if !g.options.watchOnly {
		var all []objects.Change
		sorted, err := g.form.Sort(l.Objects)
		if err != nil {
			return err
		}
		for _, o := range sorted {
			all = append(all, objects.Change{Type: "ADDED", Object: o})
		}
		if err := p.Print(all); err != nil {
			return err
		}
	}
	var mu sync.Mutex // of both outputs
	notify := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		g.cmd.PrintErrln(text)
	}
	if q.Kind.Name == "pods" && g.form.IsTable() {
		end := g.watchNode(ctx, notify)
		defer end()
	}
	return q.Watch(ctx, g.client, l, func(ch objects.Change) error {
		mu.Lock()
		defer mu.Unlock()
		return p.Print([]objects.Change{ch})
	}, notify)
}

// watchNode reports in what respect the node is not well, and changes of it, until end is called.
func (g *getter) watchNode(ctx context.Context, notify func(string)) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	w := objects.NodeWatch{Client: g.client, Notify: notify}
	w.Check(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// prefixNames puts the type before each name where several types are shown.
func prefixNames(t *terminal.Table, singular string) {
	at := slices.Index(t.Header, "NAME")
	for _, row := range t.Rows {
		if at >= 0 && at < len(row) {
			row[at] = singular + "/" + row[at]
		}
	}
}
