package objectpatch

import (
	"reflect"
	"slices"
	"strings"
)

// field is what the type of an object reports about one of its fields.
type field struct {
	of reflect.Type
	// merges reports that a strategic merge patch merges the items of the list, by mergeKey if
	// they are objects.
	merges   bool
	mergeKey string
}

// fieldOf returns a field of a type by its JSON name; the zero field if it is not known.
func fieldOf(t reflect.Type, name string) field {
	t = target(t)
	if t == nil {
		return field{}
	}
	if t.Kind() == reflect.Map {
		return field{of: t.Elem()}
	}
	if t.Kind() != reflect.Struct {
		return field{}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" && f.Anonymous {
			if inner := fieldOf(f.Type, name); inner.of != nil {
				return inner
			}
		}
		if tag == name && tag != "" && tag != "-" {
			strategies := strings.Split(f.Tag.Get("patchStrategy"), ",")
			return field{of: f.Type, merges: slices.Contains(strategies, "merge"), mergeKey: f.Tag.Get("patchMergeKey")}
		}
	}
	return field{}
}

// item returns the type of the items of a list.
func item(t reflect.Type) reflect.Type {
	if t = target(t); t == nil || t.Kind() != reflect.Slice {
		return nil
	}
	return t.Elem()
}

func target(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
