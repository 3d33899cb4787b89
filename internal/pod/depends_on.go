package pod

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxDependencies is how many pods one pod can depend on, so that a status and an
// event can be computed from all of them.
const maxDependencies = 64

// DependsOn returns the pods that a pod depends on by its annotation, each as
// namespace/name, in the order of the annotation; nil without it. The names are
// those of manifests, without the node suffix; a name without a namespace is in the
// pod's own. A validated pod has no error.
func DependsOn(pod *v1.Pod) ([]string, error) {
	value, ok := pod.Annotations[AnnotationDependsOn]
	if !ok {
		return nil, nil
	}
	own := pod.Namespace
	if own == "" {
		own = metav1.NamespaceDefault
	}
	if strings.TrimSpace(value) == "" {
		return nil, fmt.Errorf("names no pod; remove the annotation, or list pods, such as db, other-namespace/cache")
	}
	entries := strings.Split(value, ",")
	if len(entries) > maxDependencies {
		return nil, fmt.Errorf("has %d entries; must be at most %d", len(entries), maxDependencies)
	}
	var names []string
	for _, entry := range entries {
		name, err := dependency(strings.TrimSpace(entry), own)
		if err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("names pod %s twice; remove one of the two", name)
		}
		names = append(names, name)
	}
	return names, nil
}

// dependency returns an entry of AnnotationDependsOn as namespace/name.
func dependency(entry, ownNamespace string) (string, error) {
	namespace, name, qualified := strings.Cut(entry, "/")
	if !qualified {
		namespace, name = ownNamespace, entry
	}
	switch {
	case entry == "":
		return "", fmt.Errorf("has an empty entry; separate the names of pods with one comma, such as db, " +
			"other-namespace/cache")
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return "", fmt.Errorf("entry %q is not the name of a pod; must be NAME or NAMESPACE/NAME of a manifest, such as db "+
			"or other-namespace/cache", entry)
	case len(validation.IsDNS1123Label(namespace)) > 0:
		return "", fmt.Errorf("entry %q has no valid namespace before the slash; must be NAME or NAMESPACE/NAME of a "+
			"manifest, such as db or other-namespace/cache", entry)
	}
	return namespace + "/" + name, nil
}

// DependencyCycle returns the shortest way on which a pod depends on itself, with the
// pod as its first and last element; nil if it does not. dependsOn returns the
// dependencies of a pod, nil for an unknown one.
func DependencyCycle(name string, dependsOn func(name string) []string) []string {
	from := map[string]string{}
	for queue := []string{name}; len(queue) > 0; queue = queue[1:] {
		for _, next := range dependsOn(queue[0]) {
			if next == name {
				way := []string{name}
				for at := queue[0]; at != name; at = from[at] {
					way = append(way, at)
				}
				way = append(way, name)
				slices.Reverse(way)
				return way
			}
			if _, seen := from[next]; !seen {
				from[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	return nil
}
