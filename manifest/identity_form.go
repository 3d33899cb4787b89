package manifest

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest/validation"
)

// identityForm returns a defaulted pod as a generic JSON object without what
// does not change its identity: values that equal their API default, empty
// lists and objects, and what the API server or this package writes. Two
// spellings of one quantity are equal.
//
// A default that a later version adds does not change any hash, since it is
// removed again.
func identityForm(pod *v1.Pod) map[string]any {
	pod = pod.DeepCopy()
	clearServerFields(pod)
	clearOwnAnnotations(pod)
	pod.TypeMeta = metav1.TypeMeta{}
	pod.Status = v1.PodStatus{}
	pod.Spec.NodeName = ""
	if pod.Namespace == metav1.NamespaceDefault {
		pod.Namespace = ""
	}

	form := jsonObject(pod)
	dropDefaults(form, pod, validation.ClearDefaults)
	// The pod-level requests are defaulted from those of the containers, so
	// that the latter have to be present.
	if pod.Spec.Resources != nil {
		dropDefaults(form, pod, validation.ClearPodResources)
	}
	dropEmpty(form, "")
	return form
}

// dropDefaults removes from the form of a pod what defaulting restores after
// clear has removed it from the pod.
func dropDefaults(form map[string]any, pod *v1.Pod, clear func(*v1.PodSpec)) {
	cleared := pod.DeepCopy()
	clear(&cleared.Spec)
	restored := cleared.DeepCopy()
	validation.SetDefaults(restored)
	dropRestored(form, jsonObject(cleared), jsonObject(restored))
}

// dropRestored removes from form what is equal in restored and absent in
// cleared.
func dropRestored(form, cleared, restored any) {
	switch form := form.(type) {
	case map[string]any:
		cleared, _ := cleared.(map[string]any)
		restored, _ := restored.(map[string]any)
		for name, value := range form {
			before, kept := cleared[name]
			if !kept && reflect.DeepEqual(value, restored[name]) {
				delete(form, name)
				continue
			}
			dropRestored(value, before, restored[name])
		}
	case []any:
		// Defaulting does not change the length of the lists of a pod.
		cleared, _ := cleared.([]any)
		restored, _ := restored.([]any)
		for i := range min(len(form), len(cleared), len(restored)) {
			dropRestored(form[i], cleared[i], restored[i])
		}
	}
}

// dropEmpty removes nulls, empty lists and empty objects from an object; path
// is that of the object, with [] for every index. List items are kept.
func dropEmpty(value any, path string) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			at := validation.JoinPath(path, name)
			dropEmpty(inner, at)
			if isEmptyJSON(inner) && !meaningfulWhenEmpty(at) {
				delete(value, name)
			}
		}
	case []any:
		for _, item := range value {
			dropEmpty(item, path+"[]")
		}
	}
}

func isEmptyJSON(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// meaningfulWhenEmpty reports whether an empty object has a meaning: the source
// of a volume, of which only emptyDir is the default, and a selector, which
// selects everything if it is empty.
func meaningfulWhenEmpty(path string) bool {
	parent, name := "", path
	if dot := strings.LastIndexByte(path, '.'); dot >= 0 {
		parent, name = path[:dot], path[dot+1:]
	}
	switch parent {
	case "spec.volumes[]":
		return name != "emptyDir"
	case "spec.volumes[].projected.sources[]":
		return true
	}
	return strings.HasSuffix(name, "elector") && parent != "spec"
}

// jsonObject returns a pod as generic JSON. It normalizes the quantities of the
// pod, too.
func jsonObject(pod *v1.Pod) map[string]any {
	normalizeQuantities(reflect.ValueOf(pod).Elem())
	text, err := json.Marshal(pod)
	if err != nil {
		// A pod that was decoded can be encoded.
		panic(err)
	}
	value, err := jsonValue(text)
	if err != nil {
		panic(err)
	}
	return value.(map[string]any)
}

// normalizeQuantities gives every quantity below a value the same format, so
// that 1Gi and 1073741824 are equal.
func normalizeQuantities(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			normalizeQuantities(value.Elem())
		}
	case reflect.Struct:
		if quantity, ok := value.Addr().Interface().(*resource.Quantity); ok {
			*quantity = normalizeQuantity(*quantity)
			return
		}
		for i := range value.NumField() {
			if value.Type().Field(i).IsExported() {
				normalizeQuantities(value.Field(i))
			}
		}
	case reflect.Slice:
		for i := range value.Len() {
			normalizeQuantities(value.Index(i))
		}
	case reflect.Map:
		if list, ok := value.Interface().(v1.ResourceList); ok {
			for name, quantity := range list {
				list[name] = normalizeQuantity(quantity)
			}
		}
	}
}

func normalizeQuantity(quantity resource.Quantity) resource.Quantity {
	quantity.Format = resource.DecimalSI
	// Adding nothing drops the text that a quantity remembers of itself.
	quantity.Add(resource.Quantity{})
	return quantity
}

// withoutResources returns a form without the values of cpu and memory, which a
// resize changes.
func withoutResources(form map[string]any) map[string]any {
	form = cloneJSON(form).(map[string]any)
	spec, _ := form["spec"].(map[string]any)
	dropResizable(spec)
	eachContainerForm(spec, dropResizable)
	dropEmpty(form, "")
	return form
}

func dropResizable(holder map[string]any) {
	resources, _ := holder["resources"].(map[string]any)
	for _, bounds := range []string{"limits", "requests"} {
		list, _ := resources[bounds].(map[string]any)
		delete(list, string(v1.ResourceCPU))
		delete(list, string(v1.ResourceMemory))
	}
}

// withoutImages returns the spec of a form without what an in-place update
// changes.
func withoutImages(form map[string]any) any {
	spec, _ := cloneJSON(form["spec"]).(map[string]any)
	eachContainerForm(spec, func(c map[string]any) { delete(c, "image") })
	return spec
}

func eachContainerForm(spec map[string]any, visit func(map[string]any)) {
	for _, list := range []string{"initContainers", "containers"} {
		items, _ := spec[list].([]any)
		for _, item := range items {
			if container, ok := item.(map[string]any); ok {
				visit(container)
			}
		}
	}
}

func cloneJSON(value any) any {
	switch value := value.(type) {
	case map[string]any:
		clone := maps.Clone(value)
		for name, inner := range clone {
			clone[name] = cloneJSON(inner)
		}
		return clone
	case []any:
		clone := make([]any, len(value))
		for i, item := range value {
			clone[i] = cloneJSON(item)
		}
		return clone
	}
	return value
}
