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

// podVerdicts are those of all leaves of a Pod.
var podVerdicts = sync.OnceValue(validation.Fields)

// fieldVerdict is what podstead does with a field.
type fieldVerdict struct {
	// kind is that of all leaves at and below it, "in part" if they differ,
	// empty if nothing is said.
	kind validation.FieldKind
	// why is why, or the error.
	why string
	// accepted are values that are taken although others are refused.
	accepted []string
	// refused are the fields below that are refused.
	refused []string
	// keys are the verdicts on the entries of a map.
	keys []validation.Field
}

const inPart validation.FieldKind = "in part"

// maxRefused is how many fields below one are named.
const maxRefused = 20

func (f *Field) verdict() fieldVerdict {
	var v fieldVerdict
	var refused []string
	for _, leaf := range podVerdicts() {
		if !under(leaf.Path, f.path) {
			continue
		}
		is := fieldVerdict{kind: leaf.Kind, why: leaf.Text, accepted: leaf.Accepted}
		if leaf.Kind == validation.FieldUnsupported || leaf.Kind == validation.FieldNotYet {
			if short := strings.TrimPrefix(leaf.Subtree, f.path); short != "" {
				refused = append(refused, strings.TrimPrefix(strings.TrimPrefix(short, "[]"), "."))
			}
		}
		switch {
		case v.kind == "":
			v = is
		case v.kind != is.kind && v.kind != inPart:
			v = fieldVerdict{kind: inPart}
		case v.why != is.why:
			v.why = ""
		}
	}
	v.refused = slices.Compact(refused)
	if f.of.Kind() == reflect.Map && v.kind == inPart {
		for _, leaf := range podVerdicts() {
			if strings.HasPrefix(leaf.Path, f.path+"[") {
				v.keys = append(v.keys, leaf)
			}
		}
	}
	return v
}

// keyText says which keys of a map are honoured, and why others are not.
func (v fieldVerdict) keyText() string {
	var honoured, others []string
	for _, leaf := range v.keys {
		key := strings.TrimSuffix(leaf.Path[strings.LastIndexByte(leaf.Path, '[')+1:], "]")
		if leaf.Kind == validation.FieldSupported {
			honoured = append(honoured, key)
			continue
		}
		if key == "*" {
			key = "others"
		}
		others = append(others, fmt.Sprintf("%s %s: %s", key, leaf.Kind, leaf.Text))
	}
	return strings.Join(append([]string{"honoured for " + strings.Join(honoured, ", ")}, others...), "; ")
}

// under reports whether a leaf is the field or below it.
func under(leaf, path string) bool {
	rest, ok := strings.CutPrefix(leaf, path)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (v fieldVerdict) text() string {
	switch v.kind {
	case "":
		return ""
	case inPart:
		if len(v.keys) > 0 {
			return v.keyText()
		}
		text := "honoured"
		switch n := len(v.refused); {
		case n == 0:
			text += " in part; see the fields below"
		case n > maxRefused:
			text += fmt.Sprintf(" in part: %d fields below are refused, such as %s; --recursive shows all", n, v.refused[0])
		default:
			text += ", but for " + strings.Join(v.refused, ", ")
		}
		return text
	}
	text := string(v.kind)
	if v.why != "" {
		text += ": " + v.why
	}
	if len(v.accepted) > 0 {
		text += fmt.Sprintf("; taken are %s", strings.Join(v.accepted, ", "))
	}
	return text
}

// defaultValue is what an unset field gets, empty for nothing: found by
// setting the defaults of a pod that has all that is above the field.
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

// value walks to the field. With fill all above it is made as it goes.
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
		next, ok := jsonField(v, step, fill)
		if !ok {
			return v, false
		}
		v = next
	}
	return v, true
}

// jsonField is the field of that name, in embedded structs too.
func jsonField(v reflect.Value, name string, fill bool) (reflect.Value, bool) {
	for i := range v.NumField() {
		tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		switch {
		case tag == name:
			return v.Field(i), true
		case tag == "" && v.Field(i).Kind() == reflect.Struct:
			if found, ok := jsonField(v.Field(i), name, fill); ok {
				return found, true
			}
		}
	}
	return reflect.Value{}, false
}
