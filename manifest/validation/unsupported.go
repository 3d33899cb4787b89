package validation

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Unsupported returns one error for every field of a defaulted pod that asks
// for something that this version does not support, so that nothing is dropped
// silently. It walks the whole pod by reflection and looks each field up in
// podVerdicts: a field that this version does not know, because the API has
// grown, is unsupported as well. An unsupported field is reported once, and not
// again for the fields below it.
func Unsupported(pod *v1.Pod) field.ErrorList {
	return append(podVerdicts.check(nil, reflect.ValueOf(pod).Elem()), unsupportedValues(pod)...)
}

// verdict reports whether this version supports a part of a pod. check is called
// only for fields that are set.
type verdict interface {
	check(path *field.Path, value reflect.Value) field.ErrorList
}

// structVerdict holds the verdicts on the fields of a struct, by JSON name.
type structVerdict map[string]verdict

func (fs structVerdict) check(path *field.Path, value reflect.Value) field.ErrorList {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	var errs field.ErrorList
	for i := range value.NumField() {
		f := value.Type().Field(i)
		if isEmptyValue(value.Field(i)) {
			continue
		}
		name := jsonName(f)
		if name == "" { // An embedded struct is part of the outer one.
			errs = append(errs, fs.check(path, value.Field(i))...)
			continue
		}
		on, ok := fs[name]
		if !ok {
			on = notSupportedYet("this field is")
		}
		errs = append(errs, on.check(path.Child(name), value.Field(i))...)
	}
	return errs
}

// jsonName returns the name of a field in a manifest, empty for an embedded
// struct.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// listVerdict is the verdict on every element of a list.
type listVerdict struct{ verdict }

func (l listVerdict) check(path *field.Path, value reflect.Value) field.ErrorList {
	var errs field.ErrorList
	for i := range value.Len() {
		errs = append(errs, l.verdict.check(path.Index(i), value.Index(i))...)
	}
	return errs
}

// mapVerdict holds the verdicts on the entries of a map, by key. Other keys get
// the verdict of the longest pattern that ends in "*" and matches them.
type mapVerdict map[string]verdict

func (m mapVerdict) check(path *field.Path, value reflect.Value) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(value) {
		errs = append(errs, m.lookup(key.String()).check(path.Key(key.String()), value.MapIndex(key))...)
	}
	return errs
}

func (m mapVerdict) lookup(key string) verdict {
	if on, ok := m[key]; ok {
		return on
	}
	best := ""
	for pattern := range m {
		prefix, ok := strings.CutSuffix(pattern, "*")
		if ok && strings.HasPrefix(key, prefix) && len(pattern) > len(best) {
			best = pattern
		}
	}
	return m[best]
}

// supported is the verdict on a field that works as in a kubelet. Its value is
// the end-to-end test that proves it.
type supported string

func (supported) check(*field.Path, reflect.Value) field.ErrorList { return nil }

// ignored is the verdict on a field that is accepted and, by design, does not
// affect how a pod runs here. Its value is the reason.
type ignored string

func (ignored) check(*field.Path, reflect.Value) field.ErrorList { return nil }

// unsupported is the verdict on a field that a single node cannot support. Its
// value is the error, which reports why and what to do.
type unsupported string

func (r unsupported) check(path *field.Path, _ reflect.Value) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, string(r))}
}

// notSupportedYet is the verdict on a field that a later version may support.
// Its value is the subject of the error, with its verb: "probes are".
type notSupportedYet string

func (n notSupportedYet) check(path *field.Path, _ reflect.Value) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, n.text())}
}

func (n notSupportedYet) text() string {
	return string(n) + " not supported yet by this version of podstead; remove the field"
}

// onlyValues is the verdict on a field of which some values, including its
// default, are supported. All other values get the other verdict.
type onlyValues struct {
	other  verdict
	values []any
}

func (o onlyValues) check(path *field.Path, value reflect.Value) field.ErrorList {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	for _, valid := range o.values {
		if value.Equal(reflect.ValueOf(valid).Convert(value.Type())) {
			return nil
		}
	}
	return o.other.check(path, value)
}

// unless returns a verdict for all values except the given ones.
func unless(other verdict, values ...any) verdict { return onlyValues{other, values} }

// resourceVerdict is the verdict on limits and requests. An unsupported limit,
// which defaulting has copied to the requests, is reported once.
type resourceVerdict struct{ structVerdict }

func (b resourceVerdict) check(path *field.Path, value reflect.Value) field.ErrorList {
	errs := b.structVerdict.check(path, value)
	limits, requests := path.Child("limits").String(), path.Child("requests").String()
	reported := make(map[string]bool, len(errs))
	for _, err := range errs {
		reported[err.Field] = true
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		key, ok := strings.CutPrefix(err.Field, requests)
		return ok && reported[limits+key]
	})
}

// isEmptyValue reports whether a field is not set, or is an empty list or
// struct. A pointer to a scalar is never empty.
func isEmptyValue(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	case reflect.Pointer:
		return value.IsNil() || value.Elem().Kind() == reflect.Struct && isEmptyValue(value.Elem())
	case reflect.Struct:
		for i := range value.NumField() {
			if !isEmptyValue(value.Field(i)) {
				return false
			}
		}
		return true
	}
	return value.IsZero()
}

// sortedKeys returns the keys of a map with string keys, in order.
func sortedKeys(value reflect.Value) []reflect.Value {
	keys := value.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
