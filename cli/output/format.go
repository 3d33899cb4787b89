package output

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/podstead/podstead/cli/jsonpath"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// Format is the format in which objects are printed.
type Format struct {
	// Name is empty for a table, or wide, json, yaml, name, jsonpath or columns.
	Name     string
	template *jsonpath.Template
	columns  []customColumn
	// SortBy is the field to sort by, nil for the daemon's order.
	SortBy     *jsonpath.Template
	showLabels bool
	noHeaders  bool
	// labelColumns are labels with a column of their own.
	labelColumns []string
}

// customColumn is a column of -o custom-columns.
type customColumn struct {
	header string
	path   *jsonpath.Template
}

// Options are the flags that choose how objects are printed.
type Options struct {
	Output, SortBy        string
	ShowLabels, NoHeaders bool
	// LabelColumns are labels with a column of their own.
	LabelColumns []string
}

// Parse parses --output and the flags that belong to it. Its errors are errors of the
// command line.
func Parse(o Options) (Format, error) {
	f := Format{showLabels: o.ShowLabels, noHeaders: o.NoHeaders, labelColumns: o.LabelColumns}
	name, argument, given := strings.Cut(o.Output, "=")
	var err error
	switch name {
	case "", "wide", "json", "yaml", "name":
		if given {
			return f, fmt.Errorf("--output %q: %s takes no argument", o.Output, name)
		}
		f.Name = name
	case "jsonpath":
		f.Name = name
		if argument == "" {
			return f, fmt.Errorf("--output %q: a template is required, such as jsonpath={.items[*].metadata.name}", o.Output)
		}
		if f.template, err = jsonpath.Parse(argument); err != nil {
			return f, fmt.Errorf("--output: %w", err)
		}
	case "custom-columns":
		f.Name = "columns"
		if f.columns, err = parseColumns(argument); err != nil {
			return f, fmt.Errorf("--output: %w", err)
		}
	default:
		return f, fmt.Errorf("--output %q: must be wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=HEADER:PATH",
			o.Output)
	}
	if o.SortBy != "" {
		if f.SortBy, err = jsonpath.ParsePath(o.SortBy); err != nil {
			return f, fmt.Errorf("--sort-by: %w", err)
		}
	}
	return f, nil
}

func parseColumns(text string) ([]customColumn, error) {
	var columns []customColumn
	for _, part := range strings.Split(text, ",") {
		header, path, ok := strings.Cut(part, ":")
		if !ok || header == "" {
			return nil, fmt.Errorf("custom-columns %q: must be HEADER:PATH, such as NAME:.metadata.name", part)
		}
		t, err := jsonpath.ParsePath(path)
		if err != nil {
			return nil, fmt.Errorf("custom-columns: %w", err)
		}
		columns = append(columns, customColumn{header, t})
	}
	return columns, nil
}

// IsTable reports whether objects are printed as a table for people.
func (f Format) IsTable() bool { return f.Name == "" || f.Name == "wide" }

// Sort returns the objects in the order of --sort-by. It is an error if no object has the
// field, as with kubectl.
func (f Format) Sort(list []*objects.Object) ([]*objects.Object, error) {
	if f.SortBy == nil {
		return list, nil
	}
	values := map[*objects.Object]any{}
	for _, o := range list {
		if found := f.SortBy.Find(o.Tree()); len(found) > 0 {
			values[o] = found[0]
		}
	}
	if len(values) == 0 && len(list) > 0 {
		return nil, fmt.Errorf("--sort-by %s: no object has this field", f.SortBy)
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b *objects.Object) int { return compare(values[a], values[b]) })
	return sorted, nil
}

// compare orders two values of a field: quantities by amount, other values of one type
// by that type. No value comes first; values that cannot be compared are equal.
func compare(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return compareText(x, y)
		}
	case bool:
		if y, ok := b.(bool); ok && x != y {
			if x {
				return 1
			}
			return -1
		}
	case int64, float64:
		if y, ok := number(b); ok {
			x, _ := number(a)
			return cmp.Compare(x, y)
		}
	}
	return 0
}

func compareText(a, b string) int {
	x, err := resource.ParseQuantity(a)
	y, other := resource.ParseQuantity(b)
	if err == nil && other == nil {
		return x.Cmp(y)
	}
	return strings.Compare(a, b)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// Table returns the table of a list.
func (f Format) Table(k *objects.Kind, l *objects.List, now time.Time) (terminal.Table, error) {
	t := terminal.Table{Header: f.header(k, l), NoHeader: f.noHeaders}
	sorted, err := f.Sort(l.Objects)
	if err != nil {
		return terminal.Table{}, err
	}
	for _, o := range sorted {
		row, err := f.row(k, l, o, now)
		if err != nil {
			return terminal.Table{}, err
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

func (f Format) header(k *objects.Kind, l *objects.List) []string {
	var head []string
	switch {
	case k.Row != nil:
		head = slices.Clone(k.Header)
		if f.Name == "wide" {
			head = append(head, k.WideHeader...)
		}
	default:
		if k.Namespaced {
			head = append(head, "NAMESPACE")
		}
		for _, column := range l.Columns {
			if column.Priority == 0 || f.Name == "wide" {
				head = append(head, strings.ToUpper(column.Name))
			}
		}
	}
	for _, label := range f.labelColumns {
		head = append(head, strings.ToUpper(label[strings.LastIndex(label, "/")+1:]))
	}
	if f.showLabels {
		head = append(head, "LABELS")
	}
	return head
}

func (f Format) row(k *objects.Kind, l *objects.List, o *objects.Object, now time.Time) ([]string, error) {
	var row []string
	if k.Row != nil && o.Cells == nil {
		cells, err := k.Row(o, now)
		if err != nil {
			return nil, err
		}
		row = cells
		if f.Name != "wide" {
			row = row[:len(k.Header)]
		}
	} else {
		if k.Namespaced {
			row = append(row, o.Namespace)
		}
		for i, cell := range o.Cells {
			if i < len(l.Columns) && (l.Columns[i].Priority == 0 || f.Name == "wide") {
				row = append(row, terminal.OneLine(fmt.Sprint(cell)))
			}
		}
	}
	for _, label := range f.labelColumns {
		row = append(row, terminal.OrNone(o.Labels[label]))
	}
	if f.showLabels {
		row = append(row, terminal.OrNone(labels.FormatLabels(o.Labels)))
	}
	return row, nil
}

// PrintObjects prints objects in one of the formats that are not a table. A single
// object is printed by itself, not in a list, as kubectl does it.
func (f Format) PrintObjects(out io.Writer, list []*objects.Object, kinds map[*objects.Object]*objects.Kind,
	single bool) error {
	list, err := f.Sort(list)
	if err != nil {
		return err
	}
	switch f.Name {
	case "name":
		for _, o := range list {
			if _, err := fmt.Fprintln(out, kinds[o].Singular+"/"+o.Name); err != nil {
				return err
			}
		}
		return nil
	case "columns":
		return f.customTable(list).Print(out)
	}
	var value any
	if single {
		value = list[0].Tree()
	} else {
		items := []any{}
		for _, o := range list {
			items = append(items, o.Tree())
		}
		value = map[string]any{"apiVersion": "v1", "kind": "List", "items": items,
			"metadata": map[string]any{"resourceVersion": ""}}
	}
	if f.Name == "jsonpath" {
		return f.template.Execute(out, value)
	}
	return PrintEncoded(out, value, f.Name)
}

func (f Format) customTable(list []*objects.Object) terminal.Table {
	t := terminal.Table{NoHeader: f.noHeaders}
	for _, column := range f.columns {
		t.Header = append(t.Header, column.header)
	}
	for _, o := range list {
		var row []string
		for _, column := range f.columns {
			row = append(row, terminal.OrNone(terminal.OneLine(strings.Join(column.path.Texts(o.Tree()), ","))))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// PrintEncoded prints a value as json or yaml, with one newline at its end.
func PrintEncoded(out io.Writer, value any, format string) error {
	encode := func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	if format == "yaml" {
		encode = yaml.Marshal
	}
	text, err := encode(value)
	if err != nil {
		return fmt.Errorf("failed to encode the output: %w", err)
	}
	_, err = fmt.Fprintln(out, strings.TrimRight(string(text), "\n"))
	return err
}
