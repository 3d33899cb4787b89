package explain

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/manifest/validation"
)

// podFields are the leaf fields of a Pod and how they are treated.
var podFields = sync.OnceValue(validation.Fields)

// verdict reports how podstead treats a field.
type verdict struct {
	// kind is the kind of all leaves at and below the field, "in part" if they
	// differ, empty if there are none.
	kind validation.FieldKind
	// reason is the reason, or the error message.
	reason string
	// accepted are the values that are supported although others are not.
	accepted []string
	// unsupported are the fields below that are not supported.
	unsupported []string
	// keys are the entries of a map.
	keys []validation.Field
}

const inPart validation.FieldKind = "in part"

// maxListed is the maximum number of unsupported fields that are listed.
const maxListed = 20

func (f *Field) verdict() verdict {
	var v verdict
	var unsupported []string
	for _, leaf := range podFields() {
		if !isBelow(leaf.Path, f.path) {
			continue
		}
		next := verdict{kind: leaf.Kind, reason: leaf.Text, accepted: leaf.Accepted}
		if leaf.Kind == validation.FieldUnsupported || leaf.Kind == validation.FieldNotYet {
			if short := strings.TrimPrefix(leaf.Subtree, f.path); short != "" {
				unsupported = append(unsupported, strings.TrimPrefix(strings.TrimPrefix(short, "[]"), "."))
			}
		}
		switch {
		case v.kind == "":
			v = next
		case v.kind != next.kind && v.kind != inPart:
			v = verdict{kind: inPart}
		case v.reason != next.reason:
			v.reason = ""
		}
	}
	v.unsupported = slices.Compact(unsupported)
	if f.typ.Kind() == reflect.Map && v.kind == inPart {
		for _, leaf := range podFields() {
			if strings.HasPrefix(leaf.Path, f.path+"[") {
				v.keys = append(v.keys, leaf)
			}
		}
	}
	return v
}

// keyText returns which keys of a map are supported, and why others are not.
func (v verdict) keyText() string {
	var supported, others []string
	for _, leaf := range v.keys {
		key := strings.TrimSuffix(leaf.Path[strings.LastIndexByte(leaf.Path, '[')+1:], "]")
		if leaf.Kind == validation.FieldSupported {
			supported = append(supported, key)
			continue
		}
		if key == "*" {
			key = "others"
		}
		others = append(others, fmt.Sprintf("%s %s: %s", key, leaf.Kind, leaf.Text))
	}
	return strings.Join(append([]string{string(validation.FieldSupported) + " for " + strings.Join(supported, ", ")},
		others...), "; ")
}

// isBelow reports whether a leaf is the field or below it.
func isBelow(leaf, path string) bool {
	rest, ok := strings.CutPrefix(leaf, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (v verdict) text() string {
	switch v.kind {
	case "":
		return ""
	case inPart:
		if len(v.keys) > 0 {
			return v.keyText()
		}
		text := string(validation.FieldSupported)
		switch n := len(v.unsupported); {
		case n == 0:
			text += " in part; see the fields below"
		case n > maxListed:
			text += fmt.Sprintf(" in part: %d fields below are unsupported, such as %s; --recursive lists all", n,
				v.unsupported[0])
		default:
			text += ", except " + strings.Join(v.unsupported, ", ")
		}
		return text
	}
	text := string(v.kind)
	if v.reason != "" {
		text += ": " + v.reason
	}
	if len(v.accepted) > 0 {
		text += fmt.Sprintf("; supported values: %s", strings.Join(v.accepted, ", "))
	}
	return text
}

// defaultValue returns the default of the field, empty if it has none. It sets the defaults
// of a pod that has all fields above this one.
func (f *Field) defaultValue() string {
	pod := &v1.Pod{}
	f.value(pod, true)
	validation.SetDefaults(pod)
	value, ok := f.value(pod, false)
	if !ok || value.IsZero() || value.Kind() == reflect.Pointer && value.IsNil() {
		return ""
	}
	text, err := json.Marshal(value.Interface())
	if err != nil || string(text) == "{}" {
		return ""
	}
	return string(text)
}

// value returns the field in a pod. With fill it creates what is missing above the field.
func (f *Field) value(pod *v1.Pod, fill bool) (reflect.Value, bool) {
	v := reflect.ValueOf(pod).Elem()
	for _, step := range f.steps {
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			switch {
			case v.Kind() == reflect.Pointer && v.IsNil():
				if !fill {
					return v, false
				}
				v.Set(reflect.New(v.Type().Elem()))
			case v.Kind() == reflect.Slice && v.Len() == 0:
				if !fill {
					return v, false
				}
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			if v.Kind() == reflect.Pointer {
				v = v.Elem()
			} else {
				v = v.Index(0)
			}
		}
		if v.Kind() != reflect.Struct {
			return v, false
		}
		next, ok := jsonField(v, step)
		if !ok {
			return v, false
		}
		v = next
	}
	return v, true
}

// jsonField returns the field of a JSON name, also from embedded structs.
func jsonField(v reflect.Value, name string) (reflect.Value, bool) {
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case tag == name:
			return v.Field(i), true
		case tag == "" && v.Field(i).Kind() == reflect.Struct:
			if found, ok := jsonField(v.Field(i), name); ok {
				return found, true
			}
		}
	}
	return reflect.Value{}, false
}
