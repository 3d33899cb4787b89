package oracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// The numbers of random pods to compare, and of differences to show. The seeds are
// fixed.
const (
	mutations = 30000
	fillings  = 5000
	shown     = 5
)

func fuzz(t *testing.T, rounds int, next func(seed uint64) *v1.Pod) {
	failures := 0
	for seed := range uint64(rounds) {
		pod := next(seed)
		for _, difference := range []string{compareDefaults(t, pod), compareFaults(t, pod)} {
			if difference == "" {
				continue
			}
			if failures++; failures <= shown {
				manifest, _ := yaml.Marshal(pod)
				t.Errorf("seed %d: %s\n%s", seed, difference, manifest[:min(len(manifest), 6000)])
			}
		}
	}
	if failures > shown {
		t.Errorf("%d differences in all", failures)
	}
}

// random generates values of the types of a Pod.
type random struct {
	*rand.Rand
	// full is the probability that an optional field is set, in percent.
	full int
}

func newRandom(seed uint64, full int) *random {
	return &random{rand.New(rand.NewPCG(seed, 1)), full}
}

func pick[T any](r *random, values ...T) T { return values[r.IntN(len(values))] }

// fill returns a pod in which all values are random.
func fill(seed uint64) *v1.Pod {
	r := newRandom(seed, 5+int(seed%30))
	pod := &v1.Pod{}
	r.value(reflect.ValueOf(&pod.ObjectMeta).Elem(), 0)
	r.value(reflect.ValueOf(&pod.Spec).Elem(), 0)
	return pod
}

// mutate returns a function that makes random changes to pods of the corpus.
func mutate(pods map[string]*v1.Pod) func(seed uint64) *v1.Pod {
	names := slices.Sorted(maps.Keys(pods))
	return func(seed uint64) *v1.Pod {
		r := newRandom(seed, 30)
		pod := pods[names[int(seed)%len(names)]].DeepCopy()
		pod.Status = v1.PodStatus{}
		for range 1 + r.IntN(4) {
			var spots []reflect.Value
			collect(reflect.ValueOf(&pod.ObjectMeta).Elem(), &spots)
			collect(reflect.ValueOf(&pod.Spec).Elem(), &spots)
			r.change(spots[r.IntN(len(spots))])
		}
		return pod
	}
}

// collect finds everything in a pod that can be changed.
func collect(value reflect.Value, into *[]reflect.Value) {
	switch value.Interface().(type) {
	case resource.Quantity, metav1.Time, intstr.IntOrString:
		*into = append(*into, value)
		return
	case metav1.FieldsV1: // Holds JSON, which random bytes are not.
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			collect(value.Field(i), into)
		}
		return
	case reflect.Pointer:
		if !value.IsNil() {
			collect(value.Elem(), into)
		}
	case reflect.Slice:
		for i := range value.Len() {
			collect(value.Index(i), into)
		}
	}
	*into = append(*into, value)
}

// change makes one change to a place.
func (r *random) change(value reflect.Value) {
	switch value.Kind() {
	case reflect.Slice:
		switch n := value.Len(); {
		case n > 0 && r.IntN(3) == 0: // drop the last
			value.Set(value.Slice(0, n-1))
			return
		case n > 0 && r.IntN(2) == 0: // repeat one
			value.Set(reflect.Append(value, value.Index(r.IntN(n))))
			return
		}
		element := reflect.New(value.Type().Elem()).Elem()
		r.value(element, 4)
		value.Set(reflect.Append(value, element))
	case reflect.Pointer:
		if !value.IsNil() && r.IntN(2) == 0 {
			value.SetZero()
			return
		}
		value.Set(reflect.New(value.Type().Elem()))
		r.value(value.Elem(), 4)
	case reflect.Map:
		if value.Len() > 0 && r.IntN(2) == 0 {
			value.SetMapIndex(value.MapKeys()[0], reflect.Value{})
			return
		}
		r.mapEntry(value)
	default:
		r.value(value, 4)
	}
}

// value sets a random value; depth bounds its size.
func (r *random) value(value reflect.Value, depth int) {
	switch target := value.Addr().Interface().(type) {
	case *resource.Quantity:
		*target = resource.MustParse(pick(r, "0", "1", "100m", "1500u", "1.5", "-1", "1Gi", "2Mi", "4Mi", "3Mi", "1e3"))
		return
	case *metav1.Time:
		return
	case *intstr.IntOrString:
		*target = pick(r, intstr.FromInt32(r.number()), intstr.FromString(r.word(reflect.TypeFor[string]())))
		return
	case *metav1.FieldsV1:
		return
	case *metav1.ManagedFieldsEntry:
		return
	}
	switch value.Kind() {
	case reflect.Struct:
		for i := range value.NumField() {
			r.value(value.Field(i), depth+1)
		}
	case reflect.Pointer:
		if r.IntN(100) < r.full {
			value.Set(reflect.New(value.Type().Elem()))
			r.value(value.Elem(), depth+1)
		}
	case reflect.Slice:
		if r.IntN(100) < r.full || depth < 3 && r.IntN(3) == 0 {
			n := 1 + r.IntN(2)
			value.Set(reflect.MakeSlice(value.Type(), n, n))
			for i := range n {
				r.value(value.Index(i), depth+1)
			}
		}
	case reflect.Map:
		for r.IntN(100) < r.full {
			r.mapEntry(value)
		}
	case reflect.String:
		if r.IntN(100) < r.full+40 {
			value.SetString(r.word(value.Type()))
		} else {
			value.SetString("")
		}
	case reflect.Bool:
		value.SetBool(r.IntN(100) < r.full)
	case reflect.Int32, reflect.Int64, reflect.Int:
		value.SetInt(int64(r.number()))
	case reflect.Uint8:
		value.SetUint(uint64(r.IntN(256)))
	default:
		panic(fmt.Sprintf("no random value for %s", value.Type()))
	}
}

func (r *random) mapEntry(value reflect.Value) {
	if value.IsNil() {
		value.Set(reflect.MakeMap(value.Type()))
	}
	key := reflect.New(value.Type().Key()).Elem()
	key.SetString(r.word(key.Type()))
	entry := reflect.New(value.Type().Elem()).Elem()
	r.value(entry, 4)
	value.SetMapIndex(key, entry)
}

func (r *random) number() int32 {
	return pick[int32](r, -1, 0, 0, 1, 1, 2, 3, 10, 80, 80, 100, 101, 255, 256, 511, 512, 600, 3600, 65535, 65536, 86400,
		90000, 7862401, 1<<31-1)
}

// word returns a string that matters to some rule.
func (r *random) word(of reflect.Type) string {
	if known := words[of]; len(known) > 0 && r.IntN(4) > 0 {
		return pick(r, known...)
	}
	return pick(r, plainWords...)
}

var long, tooLong = strings.Repeat("a", 63), strings.Repeat("a", 64)
