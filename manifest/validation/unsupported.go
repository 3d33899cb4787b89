package validation

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Unsupported returns one error for every field of a defaulted pod that asks
// for something this version does not do yet, so that nothing is dropped
// silently. It walks the whole pod by reflection and looks each field up in
// podVerdicts: a field that this version does not know of, because the API has
// grown, is refused as well. A refused field is reported once, not field by
// field below it.
func Unsupported(pod *v1.Pod) field.ErrorList {
	return append(podVerdicts.judge(nil, reflect.ValueOf(pod).Elem()), unservable(pod)...)
}

// verdict says of a part of a pod whether this version does what it asks for.
// It is asked only about fields that say something.
type verdict interface {
	judge(path *field.Path, value reflect.Value) field.ErrorList
}

// structVerdict holds the verdicts on the fields of a struct, by their names in JSON.
type structVerdict map[string]verdict

func (fs structVerdict) judge(path *field.Path, value reflect.Value) field.ErrorList {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	var errs field.ErrorList
	for i := range value.NumField() {
		f := value.Type().Field(i)
		if asksNothing(value.Field(i)) {
			continue
		}
		name := jsonName(f)
		if name == "" { // An embedded struct is part of the outer one.
			errs = append(errs, fs.judge(path, value.Field(i))...)
			continue
		}
		on, ok := fs[name]
		if !ok {
			on = notYet("this field is")
		}
		errs = append(errs, on.judge(path.Child(name), value.Field(i))...)
	}
	return errs
}

// jsonName is the name of a field in a manifest, empty for an embedded struct.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// listVerdict is the verdict on every element of a list.
type listVerdict struct{ verdict }

func (l listVerdict) judge(path *field.Path, value reflect.Value) field.ErrorList {
	var errs field.ErrorList
	for i := range value.Len() {
		errs = append(errs, l.verdict.judge(path.Index(i), value.Index(i))...)
	}
	return errs
}

// mapVerdict is the verdict on the entries of a map, by their keys. Keys that it
// does not name get the verdict of the longest entry that ends in "*" and
// begins as they do.
type mapVerdict map[string]verdict

func (m mapVerdict) judge(path *field.Path, value reflect.Value) field.ErrorList {
	var errs field.ErrorList
	for _, key := range sortedKeys(value) {
		errs = append(errs, m.on(key.String()).judge(path.Key(key.String()), value.MapIndex(key))...)
	}
	return errs
}

func (m mapVerdict) on(key string) verdict {
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

// honoured is the verdict on a field that does here what it does under a
// kubelet. Its value is the end-to-end test that proves it.
type honoured string

func (honoured) judge(*field.Path, reflect.Value) field.ErrorList { return nil }

// inert is the verdict on a field that is accepted and has, by design, nothing
// to do with how a pod runs here. Its value is why.
type inert string

func (inert) judge(*field.Path, reflect.Value) field.ErrorList { return nil }

// refused is the verdict on a field that a single node cannot honour. Its value
// is the error, which says why and what to do.
type refused string

func (r refused) judge(path *field.Path, _ reflect.Value) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, string(r))}
}

// notYet is the verdict on a field that a later version may honour. Its value
// is what the field is about, with its verb: "probes are".
type notYet string

func (n notYet) judge(path *field.Path, _ reflect.Value) field.ErrorList {
	return field.ErrorList{field.Forbidden(path, n.text())}
}

func (n notYet) text() string {
	return string(n) + " not supported yet by this version of podstead; take the field out"
}

// only is the verdict on a field of which some values, its default among them,
// need nothing that this version lacks. The others get the other verdict.
type only struct {
	other  verdict
	values []any
}

func (o only) judge(path *field.Path, value reflect.Value) field.ErrorList {
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	for _, valid := range o.values {
		if value.Equal(reflect.ValueOf(valid).Convert(value.Type())) {
			return nil
		}
	}
	return o.other.judge(path, value)
}

// unless is the other verdict for all values but those given.
func unless(other verdict, values ...any) verdict { return only{other, values} }

// boundsVerdict is the verdict on limits and requests. A limit that is refused became
// a request by defaulting, and is not refused twice.
type boundsVerdict struct{ structVerdict }

func (b boundsVerdict) judge(path *field.Path, value reflect.Value) field.ErrorList {
	errs := b.structVerdict.judge(path, value)
	limits, requests := path.Child("limits").String(), path.Child("requests").String()
	return slices.DeleteFunc(errs, func(err *field.Error) bool {
		key, ok := strings.CutPrefix(err.Field, requests)
		return ok && slices.ContainsFunc(errs, func(other *field.Error) bool { return other.Field == limits+key })
	})
}

// asksNothing tells a field that is not set, or set to nothing: an empty list,
// an empty struct. A pointer to a plain value always says something.
func asksNothing(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	case reflect.Pointer:
		return value.IsNil() || value.Elem().Kind() == reflect.Struct && asksNothing(value.Elem())
	case reflect.Struct:
		for i := range value.NumField() {
			if !asksNothing(value.Field(i)) {
				return false
			}
		}
		return true
	}
	return value.IsZero()
}

// sortedKeys are the keys of a map with string keys, in order.
func sortedKeys(value reflect.Value) []reflect.Value {
	keys := value.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
