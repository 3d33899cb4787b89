package validation

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/podstead/podstead/internal/suggest"
)

// structFields are the fields of a struct by JSON name.
type structFields struct {
	types map[string]reflect.Type
	// names are in the order of the struct.
	names []string
}

var structFieldsCache sync.Map // of reflect.Type to *structFields

// fieldsOf returns the fields of a struct, including those of embedded structs.
func fieldsOf(t reflect.Type) *structFields {
	if cached, ok := structFieldsCache.Load(t); ok {
		return cached.(*structFields)
	}
	fields := &structFields{types: map[string]reflect.Type{}}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && (field.Anonymous || options == "inline"):
			inner := fieldsOf(pointee(field.Type))
			for _, name := range inner.names {
				fields.add(name, inner.types[name])
			}
		default:
			fields.add(name, field.Type)
		}
	}
	cached, _ := structFieldsCache.LoadOrStore(t, fields)
	return cached.(*structFields)
}

func (f *structFields) add(name string, t reflect.Type) {
	if _, twice := f.types[name]; !twice {
		f.types[name] = t
		f.names = append(f.names, name)
	}
}

func pointee(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()

// decodesItself reports whether a type has its own JSON decoding, such as a
// quantity or a time.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(jsonUnmarshaler)
}

// fieldRemedy suggests what was most likely meant by an unknown field. The
// structs lead from the object to the one in which the field was found.
func fieldRemedy(name string, structs []pathStruct) string {
	here := structs[len(structs)-1]
	fields := fieldsOf(here.typ)
	for _, valid := range fields.names {
		if strings.EqualFold(valid, name) {
			return "did you mean " + Quote(valid) + "? Field names are case-sensitive"
		}
	}
	if place := placeOf(name, structs); place != "" {
		return Quote(name) + " belongs in " + place
	}
	if valid := suggest.Nearest(name, fields.names); valid != "" {
		return "did you mean " + Quote(valid) + "?"
	}
	if names := slices.Sorted(slices.Values(fields.names)); len(names) > 0 && len(names) <= maxListedFields {
		return "must be one of " + strings.Join(names, ", ")
	}
	return "remove it: " + here.typ.Name() + " has no such field"
}

// maxListedFields is how many fields a remedy lists at most.
const maxListedFields = 12

// pathStruct is a struct on the path to a field.
type pathStruct struct {
	path string
	typ  reflect.Type
}

// placeOf finds where a field belongs that is one or more levels too deep, or
// one level too high. It is empty if the field is known in neither place.
func placeOf(name string, structs []pathStruct) string {
	for i := len(structs) - 2; i >= 0; i-- {
		if _, ok := fieldsOf(structs[i].typ).types[name]; ok {
			if structs[i].path == "" {
				return "the object itself, at the level of metadata and spec"
			}
			return structs[i].path
		}
	}
	here := structs[len(structs)-1]
	fields := fieldsOf(here.typ)
	// A field that many types have most likely belongs in a container.
	for _, child := range append([]string{"containers"}, fields.names...) {
		if fields.types[child] == nil {
			continue
		}
		t, brackets := pointee(fields.types[child]), ""
		if t.Kind() == reflect.Slice {
			t, brackets = pointee(t.Elem()), "[]"
		}
		if t.Kind() != reflect.Struct || decodesItself(t) || child == "status" {
			continue
		}
		if _, ok := fieldsOf(t).types[name]; ok {
			return JoinPath(here.path, child) + brackets
		}
	}
	return ""
}
