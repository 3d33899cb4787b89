package explain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest/validation"
)

// Field is a field of a Pod, or the Pod itself.
type Field struct {
	Name string
	// path is the path in validation.Fields: [] stands for each element of a list.
	path string
	typ  reflect.Type
	// steps are the names of the fields from the Pod to this one.
	steps []string
	doc   string
}

// swaggerDoc is implemented by the API types; it documents their fields.
type swaggerDoc interface{ SwaggerDoc() map[string]string }

// docsOf returns the documentation of the fields of a type.
func docsOf(t reflect.Type) map[string]string {
	if t = elementType(t); t.Kind() == reflect.Struct {
		if d, ok := reflect.New(t).Interface().(swaggerDoc); ok {
			return d.SwaggerDoc()
		}
	}
	return nil
}

// elementType returns the type of the elements of lists, maps and pointers.
func elementType(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 ||
		t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// Fields returns the fields of a field, in the order of the API.
func (f *Field) Fields() []*Field {
	t := elementType(f.typ)
	if t.Kind() != reflect.Struct ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
		return nil
	}
	path := f.path
	if f.typ.Kind() == reflect.Slice {
		path += "[]"
	}
	var all []*Field
	docs := docsOf(t)
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // an embedded struct is part of the outer one
			all = append(all, (&Field{path: path, typ: field.Type, steps: f.steps}).Fields()...)
			continue
		}
		if f.path == "" && name != "metadata" && name != "spec" && name != "status" {
			all = append(all, &Field{Name: name, path: name, typ: field.Type, steps: []string{name}, doc: docs[name]})
			continue
		}
		all = append(all, &Field{
			Name: name, path: strings.TrimPrefix(path+"."+name, "."), typ: field.Type,
			steps: append(slices.Clone(f.steps), name), doc: docs[name],
		})
	}
	return all
}

// Find returns the field of a path, such as pod.spec.containers.image.
func Find(text string) (*Field, error) {
	current := &Field{Name: "pod", typ: reflect.TypeFor[v1.Pod](), doc: docsOf(reflect.TypeFor[v1.Pod]())[""]}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == '.' })
	for i, word := range words {
		word, _, _ = strings.Cut(word, "[")
		if i == 0 && objects.PodKind().Matches(word) {
			continue
		}
		var names []string
		var found *Field
		for _, f := range current.Fields() {
			names = append(names, f.Name)
			if f.Name == word {
				found = f
			}
		}
		if found == nil {
			hint := "; it has " + strings.Join(names, ", ")
			if nearest := suggest.Nearest(word, names); nearest != "" {
				hint = fmt.Sprintf("; did you mean %q?", nearest)
			} else if len(names) == 0 {
				hint = ", since it has no fields"
			} else if i == 0 {
				hint = "; only fields of a pod are documented, such as pod.spec.containers"
			}
			return nil, fmt.Errorf("%s has no field %q%s", strings.Join(append([]string{"pod"}, current.steps...), "."), word,
				hint)
		}
		current = found
	}
	return current, nil
}

// typeName returns the type as kubectl prints it.
func (f *Field) typeName() string {
	t, list, mapPrefix := f.typ, "", ""
	for {
		switch {
		case t.Kind() == reflect.Pointer:
			t = t.Elem()
			continue
		case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
			list, t = list+"[]", t.Elem()
			continue
		case t.Kind() == reflect.Map:
			mapPrefix, t = "map[string]", t.Elem()
			continue
		}
		break
	}
	name := t.Name()
	switch {
	case t.Kind() == reflect.Slice:
		name = "base64"
	case t.Kind() == reflect.String:
		name = "string"
	case t.Kind() == reflect.Bool:
		name = "boolean"
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		name = "integer"
	}
	return "<" + list + mapPrefix + name + ">"
}

// Text returns the documentation of the field.
func (f *Field) Text(t terminal.Terminal, recursive bool) string {
	var out terminal.Report
	field := func(key, value string) {
		if value != "" {
			out.Field(0, 10, key, strings.Join(terminal.Wrap(value, max(terminal.WrapWidth, t.Width-10)), "\n"))
		}
	}
	field("FIELD", strings.Join(append([]string{"pod"}, f.steps...), ".")+" "+f.typeName())
	if len(f.steps) > 0 {
		field("SUPPORT", f.verdict().text())
		field("DEFAULT", f.defaultValue())
	}
	out.Line(0, "")
	for _, line := range terminal.Wrap(f.doc, t.Width-1) {
		out.Line(0, line)
	}
	if below := f.Fields(); len(below) > 0 {
		out.Line(0, "")
		out.Heading(0, "FIELDS")
		fieldLines(&out, below, 2, recursive, nil)
	}
	return out.String()
}

// fieldLines lists fields with their types, and how podstead treats each one that is not
// fully supported. within are the types above, since types can be recursive.
func fieldLines(out *terminal.Report, fields []*Field, indent int, recursive bool, within []reflect.Type) {
	widest, widestType := 0, 0
	for _, f := range fields {
		widest, widestType = max(widest, len(f.Name)), max(widestType, len(f.typeName()))
	}
	for _, f := range fields {
		line := f.Name + strings.Repeat(" ", widest-len(f.Name)+2) + f.typeName()
		if v := f.verdict(); v.kind != validation.FieldSupported && v.kind != "" {
			line += strings.Repeat(" ", widestType-len(f.typeName())+2) + string(v.kind)
		}
		out.Line(indent, line)
		if t := elementType(f.typ); recursive && !slices.Contains(within, t) {
			fieldLines(out, f.Fields(), indent+2, true, append(within, t))
		}
	}
}
