package validation

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// FieldKind is the kind of a verdict on a field.
type FieldKind string

// The kinds of verdicts.
const (
	// FieldSupported is a field that works as in a kubelet.
	FieldSupported FieldKind = "supported"
	// FieldIgnored is accepted and does not affect the pod.
	FieldIgnored FieldKind = "ignored"
	// FieldUnsupported is an error: a single node cannot support it.
	FieldUnsupported FieldKind = "unsupported"
	// FieldNotYet is an error: a later version may support it.
	FieldNotYet FieldKind = "not yet supported"
)

// Field is a field of a Pod without fields of its own, and the verdict on it.
type Field struct {
	// Path is the field path, with [] for each element of a list and [key] for
	// an entry of a map.
	Path string
	// Subtree is the path of the field that the verdict is on: Path itself or a
	// field above it.
	Subtree string
	Kind    FieldKind
	// Text is why the field is ignored, or the error.
	Text string
	// Proof is the end-to-end test of a supported field.
	Proof string
	// Accepted are the supported values of a field whose other values are
	// unsupported.
	Accepted []string
}

// Fields returns all leaf fields of a Pod's metadata and spec, in the order of
// the API.
func Fields() []Field {
	var w fieldWalk
	w.walk("metadata", podVerdicts["metadata"], reflect.TypeFor[metav1.ObjectMeta]())
	w.walk("spec", podVerdicts["spec"], reflect.TypeFor[v1.PodSpec]())
	return w.fields
}

type fieldWalk struct{ fields []Field }

func (w *fieldWalk) walk(path string, on verdict, of reflect.Type) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch on := on.(type) {
	case listVerdict:
		w.walk(path+"[]", on.verdict, of.Elem())
	case resourceVerdict:
		w.walk(path, on.structVerdict, of)
	case structVerdict:
		for i := range of.NumField() {
			f := of.Field(i)
			if name := jsonName(f); name == "" {
				w.walk(path, on, f.Type)
			} else {
				w.walk(path+"."+name, on[name], f.Type)
			}
		}
	case mapVerdict:
		for _, key := range slices.Sorted(mapKeys(on)) {
			w.add(path+"["+key+"]", on[key], of.Elem())
		}
	default:
		w.add(path, on, of)
	}
}

func mapKeys(m mapVerdict) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// add adds the leaf fields at and below a path that has one verdict.
func (w *fieldWalk) add(path string, on verdict, of reflect.Type) {
	field := Field{Subtree: path}
	if o, ok := on.(onlyValues); ok {
		for _, value := range o.values {
			field.Accepted = append(field.Accepted, formatValue(value))
		}
		on = o.other
	}
	switch on := on.(type) {
	case supported:
		field.Kind, field.Proof = FieldSupported, string(on)
	case ignored:
		field.Kind, field.Text = FieldIgnored, string(on)
	case unsupported:
		field.Kind, field.Text = FieldUnsupported, string(on)
	case notSupportedYet:
		field.Kind, field.Text = FieldNotYet, on.text()
	}
	eachLeaf(path, of, nil, func(leaf string) {
		field.Path = leaf
		w.fields = append(w.fields, field)
	})
}

func formatValue(value any) string {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return "true"
		}
		return "false"
	case reflect.String:
		return v.String()
	}
	return strings.TrimSpace(reflect.ValueOf(value).String())
}

// scalarStructs are structs that are one value in a manifest.
var scalarStructs = []reflect.Type{
	reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.FieldsV1](),
	reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString](),
}

// eachLeaf calls yield for each leaf of a type. A recursive type is a leaf.
func eachLeaf(path string, of reflect.Type, within []reflect.Type, yield func(string)) {
	switch of.Kind() {
	case reflect.Pointer:
		eachLeaf(path, of.Elem(), within, yield)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			yield(path)
			return
		}
		eachLeaf(path+"[]", of.Elem(), within, yield)
	case reflect.Map:
		eachLeaf(path+"[key]", of.Elem(), within, yield)
	case reflect.Struct:
		if slices.Contains(scalarStructs, of) || slices.Contains(within, of) || of.NumField() == 0 {
			yield(path)
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			name := path
			if json := jsonName(f); json != "" {
				name += "." + json
			}
			eachLeaf(name, f.Type, append(within, of), yield)
		}
	default:
		yield(path)
	}
}
