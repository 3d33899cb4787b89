package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cmd/podstead/cli/jsonpath"
)

// form is how objects are printed.
type form struct {
	// name is empty for a table, wide, json, yaml, name, jsonpath or columns.
	name       string
	template   *jsonpath.Template
	columns    []customColumn
	sortBy     *jsonpath.Template
	showLabels bool
	bare       bool
}

// customColumn is one of -o custom-columns.
type customColumn struct {
	head string
	path *jsonpath.Template
}

// parseForm reads --output and what belongs to it.
func parseForm(o getOptions) (form, error) {
	f := form{showLabels: o.showLabels, bare: o.bare}
	name, argument, given := strings.Cut(o.output, "=")
	var err error
	switch name {
	case "", "wide", "json", "yaml", "name":
		if given {
			return f, usageError(fmt.Errorf("--output %q: %s takes no argument", o.output, name))
		}
		f.name = name
	case "jsonpath":
		f.name = name
		if f.template, err = jsonpath.Parse(argument); err != nil {
			return f, usageError(fmt.Errorf("--output: %w", err))
		}
	case "custom-columns":
		f.name = "columns"
		if f.columns, err = parseColumns(argument); err != nil {
			return f, usageError(fmt.Errorf("--output: %w", err))
		}
	default:
		return f, usageError(fmt.Errorf("--output %q: must be wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEAD:PATH", o.output))
	}
	if o.sortBy != "" {
		if f.sortBy, err = jsonpath.ParsePath(o.sortBy); err != nil {
			return f, usageError(fmt.Errorf("--sort-by: %w", err))
		}
	}
	return f, nil
}

func parseColumns(text string) ([]customColumn, error) {
	var columns []customColumn
	for _, part := range strings.Split(text, ",") {
		head, path, ok := strings.Cut(part, ":")
		if !ok || head == "" {
			return nil, fmt.Errorf("custom-columns %q: must be HEAD:PATH, such as NAME:.metadata.name", part)
		}
		t, err := jsonpath.ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("custom-columns: %w", err)
		}
		columns = append(columns, customColumn{head, t})
	}
	return columns, nil
}

// table says that the form is the table that people look at.
func (f form) table() bool { return f.name == "" || f.name == "wide" }

// sorted are the objects in the order that --sort-by asks for.
func (f form) sorted(objects []*object) []*object {
	if f.sortBy == nil {
		return objects
	}
	by := map[*object]any{}
	for _, o := range objects {
		if found := f.sortBy.Find(o.tree()); len(found) > 0 {
			by[o] = found[0]
		}
	}
	sorted := slices.Clone(objects)
	sort.SliceStable(sorted, func(i, j int) bool { return less(by[sorted[i]], by[sorted[j]]) })
	return sorted
}

// less orders values of a field: quantities by their size, others of one type
// as such; what has no value goes first.
func less(a, b any) bool {
	if a == nil || b == nil {
		return a == nil && b != nil
	}
	if x, isText := a.(string); isText {
		if y, isText := b.(string); isText {
			p, err := resource.ParseQuantity(x)
			q, other := resource.ParseQuantity(y)
			if err == nil && other == nil {
				return p.Cmp(q) < 0
			}
		}
	}
	order, comparable := jsonpath.Compare(a, b)
	return comparable && order < 0
}

// tableOf makes the table of a list.
func (f form) tableOf(k *kind, l *listing, now time.Time) (table, error) {
	t := table{head: f.head(k, l), bare: f.bare}
	for _, o := range f.sorted(l.objects) {
		row, err := f.row(k, l, o, now)
		if err != nil {
			return table{}, err
		}
		t.rows = append(t.rows, row)
	}
	return t, nil
}

func (f form) head(k *kind, l *listing) []string {
	var head []string
	switch {
	case k.row != nil:
		head = slices.Clone(k.head)
		if f.name == "wide" {
			head = append(head, k.wide...)
		}
	default:
		if k.namespaced {
			head = append(head, "NAMESPACE")
		}
		for _, column := range l.columns {
			if column.Priority == 0 || f.name == "wide" {
				head = append(head, strings.ToUpper(column.Name))
			}
		}
	}
	if f.showLabels {
		head = append(head, "LABELS")
	}
	return head
}

func (f form) row(k *kind, l *listing, o *object, now time.Time) ([]string, error) {
	var row []string
	if k.row != nil && o.cells == nil {
		cells, err := k.row(o, now)
		if err != nil {
			return nil, err
		}
		row = cells
		if f.name != "wide" {
			row = row[:len(k.head)]
		}
	} else {
		if k.namespaced {
			row = append(row, o.Namespace)
		}
		for i, cell := range o.cells {
			if i < len(l.columns) && (l.columns[i].Priority == 0 || f.name == "wide") {
				row = append(row, oneLine(fmt.Sprint(cell)))
			}
		}
	}
	if f.showLabels {
		row = append(row, orNone(labels.FormatLabels(o.Labels)))
	}
	return row, nil
}

// objects prints in one of the forms that are no table. One alone is an
// object, not a list, as kubectl has it.
func (f form) objects(out io.Writer, objects []*object, kinds map[*object]*kind, alone bool) error {
	objects = f.sorted(objects)
	switch f.name {
	case "name":
		for _, o := range objects {
			if _, err := fmt.Fprintln(out, kinds[o].singular+"/"+o.Name); err != nil {
				return err
			}
		}
		return nil
	case "columns":
		return f.customTable(objects).print(out)
	}
	var value any
	if alone {
		value = objects[0].tree()
	} else {
		items := []any{}
		for _, o := range objects {
			items = append(items, o.tree())
		}
		value = map[string]any{"apiVersion": "v1", "kind": "List", "items": items, "metadata": map[string]any{"resourceVersion": ""}}
	}
	if f.name == "jsonpath" {
		_, err := io.WriteString(out, f.template.Text(value))
		return err
	}
	return printEncoded(out, value, f.name)
}

func (f form) customTable(objects []*object) table {
	t := table{bare: f.bare}
	for _, column := range f.columns {
		t.head = append(t.head, column.head)
	}
	for _, o := range objects {
		var row []string
		for _, column := range f.columns {
			row = append(row, orNone(oneLine(strings.Join(column.path.Texts(o.tree()), ","))))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// printEncoded prints an object as json or yaml, with one line feed at its end.
func printEncoded(out io.Writer, object any, form string) error {
	encode := func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	if form == "yaml" {
		encode = yaml.Marshal
	}
	text, err := encode(object)
	if err != nil {
		return fmt.Errorf("cannot print the answer: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimRight(string(text), "\n"))
	return err
}
