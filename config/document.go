package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/podstead/podstead/config/configfile"
	"github.com/podstead/podstead/internal/suggest"
)

// The documents of a configuration file.
var (
	kubeletKind  = configfile.Kind{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration"}
	podsteadKind = configfile.Kind{APIVersion: "podstead.io/v1alpha1", Kind: "PodsteadConfiguration"}
)

// reader reads a document into the values of a table.
type reader struct {
	table *table
	kind  configfile.Kind
	doc   *configfile.Document
	// ignored are the fields that have no effect, and refused the faults of those that must not
	// be ignored; a file that overrides such a field makes it valid.
	ignored []string
	refused []*fault
}

// read reads a document. A setting that a flag sets keeps its value.
func (t *table) read(kind configfile.Kind, doc *configfile.Document) *reader {
	r := &reader{table: t, kind: kind, doc: doc}
	r.fields(node{r, "", doc.Fields})
	return r
}

// fields reads the fields of a map at a path that has no row of its own.
func (r *reader) fields(n node) {
	m, ok := n.value.(map[string]any)
	if !ok {
		n.fail("%v is not a map", n.value)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if child := n.child(name, m[name]); child.value != nil { // null is like a field that is not set
			r.field(child)
		}
	}
}

func (r *reader) field(n node) {
	if s := r.table.byPath[r.kind.Kind][n.path]; s != nil {
		r.set(s, n)
		return
	}
	below := r.below(n.path)
	without, known := fieldsWithout[n.path]
	switch {
	case len(below) > 0:
		r.fields(n)
	case r.kind != kubeletKind || !known:
		parent, name := "", n.path
		if dot := strings.LastIndex(n.path, "."); dot >= 0 {
			parent, name = n.path[:dot], n.path[dot+1:]
		}
		n.fail("unknown field%s", r.suggestion(parent, name))
	case without.supports(n.value):
	case without.remedy != "":
		r.refused = append(r.refused, &fault{r.doc.Position(n.path), n.path + ": " + scalarText(n.value) + "is not " +
			"supported: " + without.remedy})
	default:
		n.ignore()
	}
}

// set sets a setting to the value of its field.
func (r *reader) set(s *setting, n node) {
	if s.source == fromFlag {
		s.document = r.doc
		return
	}
	before := len(r.table.faults)
	set := s.value.read(n)
	if s.broken = len(r.table.faults) > before; set || s.broken {
		s.document, s.source = r.doc, fromFile
	}
}

// below returns the names of the fields of a map that is not a row itself.
func (r *reader) below(path string) (names []string) {
	add := func(field string) {
		if rest, ok := strings.CutPrefix(field, path+"."); ok || path == "" {
			if path == "" {
				rest = field
			}
			if name, _, _ := strings.Cut(rest, "."); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for field := range r.table.byPath[r.kind.Kind] {
		add(field)
	}
	if r.kind == kubeletKind {
		for field := range fieldsWithout {
			add(field)
		}
	}
	slices.Sort(names)
	return names
}

// suggestion returns what was probably meant by an unknown field.
func (r *reader) suggestion(parent, name string) string {
	other := reader{table: r.table, kind: podsteadKind}
	if r.kind == podsteadKind {
		other.kind = kubeletKind
	}
	known := r.below(parent)
	if parent != "" {
		return didYouMean(name, known)
	}
	if slices.Contains(other.below(""), name) {
		return fmt.Sprintf("; it is a field of %s, a document of its own with apiVersion: %s", other.kind.Kind,
			other.kind.APIVersion)
	}
	if near := suggest.Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return "; see docs/configuration.md for the fields"
}

// didYouMean suggests one of a few names.
func didYouMean(name string, known []string) string {
	if near := suggest.Nearest(name, known); near != "" && len(known) > 2 {
		return "; did you mean " + near + "?"
	}
	if len(known) > 2 {
		return "; the fields are " + strings.Join(known, ", ")
	}
	return "; did you mean " + strings.Join(known, " or ") + "?"
}

// scalarText returns a scalar and a blank as a message has it, and nothing for a list or map.
func scalarText(v any) string {
	switch v.(type) {
	case []any, map[string]any:
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(v)) + " "
}

// node is a value of a document.
type node struct {
	*reader
	path  string
	value any
}

func (n node) fail(format string, args ...any) {
	n.table.faults = append(n.table.faults, &fault{n.doc.Position(n.path), fmt.Errorf("%s: "+format,
		append([]any{n.path}, args...)...).Error()})
}

// ignore records that the value has no effect.
func (n node) ignore() { n.ignored = append(n.ignored, n.path) }

// dir returns the directory to which a relative path in the value refers.
func (n node) dir() string { return n.doc.Dir(n.path) }

func (n node) child(name string, value any) node {
	path := name
	if n.path != "" {
		path = n.path + "." + name
	}
	return node{n.reader, path, value}
}

func (n node) text() (string, bool) {
	text, ok := n.value.(string)
	if !ok {
		n.fail("%v is not a string; quote it", n.value)
	}
	return text, ok
}

func (n node) boolean() (on, ok bool) {
	if on, ok = n.value.(bool); !ok {
		n.fail("%v is not a boolean; use true or false", n.value)
	}
	return on, ok
}

// number reads an integer in a range.
func (n node) number(low, high int) (int, bool) {
	f, ok := n.value.(float64)
	if text, quoted := n.value.(string); quoted {
		if _, err := strconv.Atoi(text); err == nil {
			n.fail("is the string %q; must be an integer from %d to %d, without quotes", text, low, high)
			return 0, false
		}
	}
	if !ok || f != math.Trunc(f) || f < float64(low) || f > float64(high) {
		n.fail("%v must be an integer from %d to %d", n.value, low, high)
		return 0, false
	}
	return int(f), true
}

// integer reads an integer.
func (n node) integer() (int, bool) {
	f, ok := n.value.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		n.fail("%v is not an integer", n.value)
		return 0, false
	}
	return int(f), true
}

// items returns the items of a list.
func (n node) items(example string) (items []node, ok bool) {
	list, ok := n.value.([]any)
	if !ok {
		n.fail("%v is not a list, such as %s", n.value, example)
		return nil, false
	}
	for i, value := range list {
		items = append(items, node{n.reader, fmt.Sprintf("%s[%d]", n.path, i), value})
	}
	return items, true
}

// texts reads a list of strings.
func (n node) texts() (texts []string, ok bool) {
	items, ok := n.items("[a, b]")
	for _, item := range items {
		text, valid := item.text()
		texts, ok = append(texts, text), ok && valid
	}
	return texts, ok
}

// entries returns the values of a map by name, sorted.
func (n node) entries(example string) (entries []node, ok bool) {
	m, ok := n.value.(map[string]any)
	if !ok {
		n.fail("%v is not a map, such as %s", n.value, example)
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		entries = append(entries, n.child(name, m[name]))
	}
	return entries, true
}

// name returns the last step of the path of an entry of a map.
func (n node) name(of node) string { return strings.TrimPrefix(n.path, of.path+".") }

// object returns the values of a map that has only these fields, without those that are null.
func (n node) object(example string, known ...string) (fields map[string]node, ok bool) {
	entries, ok := n.entries(example)
	fields = map[string]node{}
	for _, entry := range entries {
		name := entry.name(n)
		switch {
		case !slices.Contains(known, name):
			entry.fail("unknown field%s", didYouMean(name, known))
			ok = false
		case entry.value != nil:
			fields[name] = entry
		}
	}
	return fields, ok
}
