package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// downwardFile is the content of a file of a downwardAPI volume.
func downwardFile(pod *v1.Pod, item *v1.DownwardAPIVolumeFile, allocatable v1.ResourceList) (string, error) {
	if item.FieldRef != nil {
		return metadataField(pod, item.FieldRef.FieldPath)
	}
	return resourceField(pod, item.ResourceFieldRef, allocatable)
}

// resourceField is what a container of the pod asks for or may have of a
// resource, in units of the divisor and rounded up. A container without a limit
// may have what the node has.
func resourceField(pod *v1.Pod, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string, error) {
	var found *v1.Container
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == ref.ContainerName {
				found = &list[i]
			}
		}
	}
	if found == nil {
		return "", fmt.Errorf("resourceFieldRef: the pod has no container %q", ref.ContainerName)
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	amount := found.Resources.Requests[v1.ResourceName(name)]
	if kind == "limits" {
		amount = found.Resources.Limits[v1.ResourceName(name)]
		if amount.IsZero() {
			amount = allocatable[v1.ResourceName(name)]
		}
	}
	value, unit := amount.Value, ref.Divisor.Value
	if name == string(v1.ResourceCPU) {
		value, unit = amount.MilliValue, ref.Divisor.MilliValue
	}
	if ref.Divisor.IsZero() {
		one := resource.MustParse("1")
		unit = one.Value
		if name == string(v1.ResourceCPU) {
			unit = one.MilliValue
		}
	}
	return strconv.FormatInt((value()+unit()-1)/unit(), 10), nil
}

// metadataField is what the metadata of a pod says. A path such as
// metadata.labels['key'] names one entry; a whole map has a line for each.
func metadataField(pod *v1.Pod, path string) (string, error) {
	name, key, one := strings.Cut(strings.TrimSuffix(path, "']"), "['")
	switch name {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return mapText(pod.Labels, key, one), nil
	case "metadata.annotations":
		return mapText(pod.Annotations, key, one), nil
	}
	return "", fmt.Errorf("fieldPath %q is not one of a pod's metadata", path)
}

func mapText(values map[string]string, key string, one bool) string {
	if one {
		return values[key]
	}
	lines := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(lines, "\n")
}
