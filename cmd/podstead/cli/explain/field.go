package explain

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest/validation"
)

// podField is a field of a Pod, or the Pod itself.
type Field struct {
	Name string
	// path is as validation.Fields has it: [] for each element of a list.
	path string
	of   reflect.Type
	// steps lead to it from a Pod.
	steps []string
	doc   string
}

// swaggerDoc is what the API's types say of their fields.
type swaggerDoc interface{ SwaggerDoc() map[string]string }

func docsOf(t reflect.Type) map[string]string {
	if t = bare(t); t.Kind() == reflect.Struct {
		if d, ok := reflect.New(t).Interface().(swaggerDoc); ok {
			return d.SwaggerDoc()
		}
	}
	return nil
}

// bare is the type of the elements of lists, maps and pointers.
func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

// fields are those of a field, in the order of the API.
func (f *Field) Fields() []*Field {
	t := bare(f.of)
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).Implements(reflect.TypeFor[interface{ UnmarshalJSON([]byte) error }]()) {
		return nil
	}
	path := f.path
	if f.of.Kind() == reflect.Slice {
		path += "[]"
	}
	var all []*Field
	docs := docsOf(t)
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" { // an embedded struct is part of the outer one
			all = append(all, (&Field{path: path, of: field.Type, steps: f.steps}).Fields()...)
			continue
		}
		if f.path == "" && name != "metadata" && name != "spec" && name != "status" {
			all = append(all, &Field{Name: name, path: name, of: field.Type, steps: []string{name}, doc: docs[name]})
			continue
		}
		all = append(all, &Field{
			Name: name, path: strings.TrimPrefix(path+"."+name, "."), of: field.Type, steps: append(slices.Clone(f.steps), name), doc: docs[name],
		})
	}
	return all
}

func Find(text string) (*Field, error) {
	at := &Field{Name: "pod", of: reflect.TypeFor[v1.Pod](), doc: docsOf(reflect.TypeFor[v1.Pod]())[""]}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == '.' })
	for i, word := range words {
		word, _, _ = strings.Cut(word, "[")
		if i == 0 && objects.PodKind().Matches(word) {
			continue
		}
		var names []string
		var found *Field
		for _, f := range at.Fields() {
			names = append(names, f.Name)
			if f.Name == word {
				found = f
			}
		}
		if found == nil {
			hint := "; it has " + strings.Join(names, ", ")
			if near := suggest.Nearest(word, names); near != "" {
				hint = fmt.Sprintf("; did you mean %q?", near)
			} else if len(names) == 0 {
				hint = ", nor any other"
			} else if i == 0 {
				hint = "; only the fields of a pod can be explained, such as pod.spec.containers"
			}
			return nil, fmt.Errorf("%s has no field %q%s", strings.Join(append([]string{"pod"}, at.steps...), "."), word, hint)
		}
		at = found
	}
	return at, nil
}

// typeName is the type as kubectl writes it.
func (f *Field) typeName() string {
	t, list, of := f.of, "", ""
	for {
		switch {
		case t.Kind() == reflect.Pointer:
			t = t.Elem()
			continue
		case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
			list, t = list+"[]", t.Elem()
			continue
		case t.Kind() == reflect.Map:
			of, t = "map[string]", t.Elem()
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
	return "<" + list + of + name + ">"
}

func (f *Field) Text(s terminal.Terminal, recursive bool) string {
	var out terminal.Report
	field := func(key, value string) {
		if value != "" {
			out.Field(0, 10, key, strings.Join(terminal.Wrap(value, max(terminal.WrapWidth, s.Width-10)), "\n"))
		}
	}
	field("FIELD", strings.Join(append([]string{"pod"}, f.steps...), ".")+" "+f.typeName())
	if len(f.steps) > 0 {
		field("HERE", f.verdict().text())
		field("DEFAULT", f.defaultValue())
	}
	out.Line(0, "")
	for _, line := range terminal.Wrap(f.doc, s.Width-1) {
		out.Line(0, line)
	}
	if below := f.Fields(); len(below) > 0 {
		out.Line(0, "")
		out.Heading(0, "FIELDS")
		fieldLines(&out, below, 2, recursive, nil)
	}
	return out.String()
}

// fieldLines lists fields with their types, and of each that is not simply
// honoured what it is.
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
		if t := bare(f.of); recursive && !slices.Contains(within, t) {
			fieldLines(out, f.Fields(), indent+2, true, append(within, t))
		}
	}
}
