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

// identityForm is a defaulted pod as a generic JSON object with all left out
// that does not make it another pod: values that equal their API default,
// empty lists and objects, what the API server or this package writes. Two
// spellings of one quantity are equal.
//
// A default that a later version adds thus changes no hash: it is taken out
// again.
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
	// The requests of the pod come from those of its containers, so that the
	// latter have to be there when the former are defaulted.
	if pod.Spec.Resources != nil {
		dropDefaults(form, pod, validation.ClearPodResources)
	}
	dropEmpty(form, "")
	return form
}

// dropDefaults takes out of the form of a pod what defaulting puts back after
// clear has taken it out of the pod.
func dropDefaults(form map[string]any, pod *v1.Pod, clear func(*v1.PodSpec)) {
	cleared := pod.DeepCopy()
	clear(&cleared.Spec)
	restored := cleared.DeepCopy()
	validation.SetDefaults(restored)
	dropRestored(form, jsonObject(cleared), jsonObject(restored))
}

// dropRestored takes out of form what is equal in restored and not in cleared.
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
		// The lists of a pod are as long without their defaults.
		cleared, _ := cleared.([]any)
		restored, _ := restored.([]any)
		for i := range min(len(form), len(cleared), len(restored)) {
			dropRestored(form[i], cleared[i], restored[i])
		}
	}
}

// dropEmpty takes nulls, empty lists and empty objects out of an object; path
// is that of the object, with [] for every index. The items of a list stay.
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

// meaningfulWhenEmpty tells an object that says something by being there: the
// source of a volume, of which only emptyDir is the default, and a selector,
// which if empty selects everything.
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

// jsonObject is a pod as generic JSON. In the pod as well it writes equal
// quantities alike.
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

// normalizeQuantities gives every quantity below a value the same format, so that
// 1Gi and 1073741824 are written alike.
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

// withoutResources is a form without the values of cpu and memory: those are
// what a resize changes.
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

// withoutImages is the spec of a form without what an update in place changes.
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
