package podinputs

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// downwardFile returns the content of a file of a downwardAPI volume.
func downwardFile(pod *v1.Pod, item *v1.DownwardAPIVolumeFile, allocatable v1.ResourceList) (string, error) {
	if item.FieldRef != nil {
		return metadataField(pod, item.FieldRef.FieldPath)
	}
	return resourceField(pod, nil, item.ResourceFieldRef, allocatable)
}

// resourceField returns a container's request or limit of a resource, in units of
// the divisor, rounded up. The container is the one that the reference names, else
// own, which may be nil. Without a limit of the container that of the pod counts,
// and without that the allocatable amount of the node.
func resourceField(pod *v1.Pod, own *v1.Container, ref *v1.ResourceFieldSelector, allocatable v1.ResourceList) (string,
	error) {
	container := own
	if ref.ContainerName != "" {
		container = podinfo.FindContainer(&pod.Spec, ref.ContainerName)
	}
	if container == nil {
		return "", fmt.Errorf("resourceFieldRef: the pod has no container %q", ref.ContainerName)
	}
	bound, name, _ := strings.Cut(ref.Resource, ".")
	amount := container.Resources.Requests[v1.ResourceName(name)]
	if bound == "limits" {
		amount = limitOf(pod, container, v1.ResourceName(name), allocatable)
	}
	return divide(amount, ref.Divisor, name == string(v1.ResourceCPU)), nil
}

// limitOf returns the effective limit of a container. A container without a limit
// of huge pages gets none.
func limitOf(pod *v1.Pod, c *v1.Container, name v1.ResourceName, allocatable v1.ResourceList) resource.Quantity {
	amount := c.Resources.Limits[name]
	if !amount.IsZero() || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
		return amount
	}
	if whole := pod.Spec.Resources; whole != nil && name != v1.ResourceEphemeralStorage {
		if limit := whole.Limits[name]; !limit.IsZero() {
			return limit
		}
	}
	return allocatable[name]
}

// divide returns an amount in units of the divisor, rounded up. A zero divisor
// counts as 1; milli divides at a resolution of 1/1000, for CPU.
func divide(amount, divisor resource.Quantity, milli bool) string {
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, unit := amount.Value(), divisor.Value()
	if milli {
		value, unit = amount.MilliValue(), divisor.MilliValue()
	}
	count := value / unit
	if value%unit > 0 {
		count++
	}
	return strconv.FormatInt(count, 10)
}

// metadataField returns a field of the pod's metadata. A path such as
// metadata.labels['key'] names one entry; a whole map gives one line per entry.
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
		return formatMap(pod.Labels, key, one), nil
	case "metadata.annotations":
		return formatMap(pod.Annotations, key, one), nil
	}
	return "", fmt.Errorf("fieldPath %q is not supported", path)
}

func formatMap(values map[string]string, key string, one bool) string {
	if one {
		return values[key]
	}
	lines := make([]string, 0, len(values))
	for _, key := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(lines, "\n")
}
