package jsonpath

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Text is the template filled in from an object. What a path does not find is
// empty.
func (t *Template) Text(object any) string {
	var b strings.Builder
	print(&b, t.nodes, object, object)
	return b.String()
}

func print(b *strings.Builder, nodes []node, root, current any) {
	for _, n := range nodes {
		switch {
		case n.isRange:
			for _, value := range n.path.find(root, current) {
				print(b, n.body, root, value)
			}
		case n.path != nil:
			for i, value := range n.path.find(root, current) {
				if i > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(textOf(value))
			}
		default:
			b.WriteString(n.text)
		}
	}
}

// Find is what the paths of the template find in an object, in order.
func (t *Template) Find(object any) []any {
	var all []any
	for _, n := range t.nodes {
		if n.path != nil && !n.isRange {
			all = append(all, n.path.find(object, object)...)
		}
	}
	return all
}

// Texts is what Find finds, each as it is printed.
func (t *Template) Texts(object any) []string {
	var all []string
	for _, value := range t.Find(object) {
		all = append(all, textOf(value))
	}
	return all
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

func (p *path) find(root, current any) []any {
	if p.isValue {
		return []any{p.literal}
	}
	values := []any{root}
	if p.current {
		values = []any{current}
	}
	for _, s := range p.steps {
		parts := s.union
		if parts == nil {
			parts = []step{s}
		}
		// Of a union first all values of its first part, as kubectl has it.
		var next []any
		for i := range parts {
			for _, v := range values {
				next = append(next, parts[i].of(root, v)...)
			}
		}
		values = next
	}
	return values
}

func (s *step) of(root, v any) []any {
	switch {
	case s.wildcard:
		return children(v)
	case s.descend:
		return below(v)
	case s.filter != nil:
		var all []any
		for _, child := range children(v) {
			if s.filter.holds(root, child) {
				all = append(all, child)
			}
		}
		return all
	case s.slice != nil:
		list, _ := v.([]any)
		return s.slice.of(list)
	}
	object, _ := v.(map[string]any)
	if value, ok := object[s.field]; ok {
		return []any{value}
	}
	if above, field, dotted := strings.Cut(s.field, "."); dotted && s.quoted {
		// kubectl takes a name in quotes for a path.
		if value, ok := object[above]; ok {
			return (&step{field: field, quoted: true}).of(root, value)
		}
	}
	return nil
}

// children are the values of an object by key, or of a list.
func children(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case map[string]any:
		var all []any
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, v[key])
		}
		return all
	}
	return nil
}

// below is a value and all values in it.
func below(v any) []any {
	all := []any{v}
	for _, child := range children(v) {
		all = append(all, below(child)...)
	}
	return all
}

func (s *slice) of(list []any) []any {
	at := func(bound *int, without int) int {
		n := without
		if bound != nil {
			if n = *bound; n < 0 {
				n += len(list)
			}
		}
		return n
	}
	from := at(s.from, 0)
	if s.index {
		if from < 0 || from >= len(list) {
			return nil
		}
		return list[from : from+1]
	}
	by := 1
	if s.by != nil {
		by = *s.by
	}
	var all []any
	for i := max(from, 0); i < min(at(s.to, len(list)), len(list)); i += by {
		all = append(all, list[i])
	}
	return all
}

func (f *filter) holds(root, v any) bool {
	left := f.left.find(root, v)
	if f.op == "" {
		return len(left) > 0
	}
	right := f.right.find(root, v)
	if len(left) != 1 || len(right) != 1 {
		return false
	}
	order, comparable := Compare(left[0], right[0])
	switch f.op {
	case "==":
		return comparable && order == 0
	case "!=":
		return !comparable || order != 0
	case "<":
		return comparable && order < 0
	case "<=":
		return comparable && order <= 0
	case ">":
		return comparable && order > 0
	}
	return comparable && order >= 0
}

// Compare orders two values of the same type: numbers, texts or truths. It
// reports whether they can be compared.
func Compare(a, b any) (int, bool) {
	if x, ok := number(a); ok {
		y, ok := number(b)
		switch {
		case !ok:
			return 0, false
		case x < y:
			return -1, true
		case x > y:
			return 1, true
		}
		return 0, true
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return strings.Compare(x, y), ok
	case bool:
		y, ok := b.(bool)
		if !ok || x == y {
			return 0, ok
		}
		if x {
			return 1, true
		}
		return -1, true
	case nil:
		return 0, b == nil
	}
	return 0, false
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	case float64:
		return v, true
	}
	return 0, false
}
