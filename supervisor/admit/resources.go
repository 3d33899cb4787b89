package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Resources are amounts by resource: CPU in millicores, pods as a number, all others
// in bytes. A resource that is not in it is 0.
type Resources map[v1.ResourceName]int64

// counted reports whether the node allocates a resource to pods by their requests.
// Like the kubelet it ignores resources that it does not know, such as a device's.
func counted(name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods:
		return true
	}
	return isHugePages(name)
}

func isHugePages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// ResourcesIn returns the counted resources of a list.
func ResourcesIn(list v1.ResourceList) Resources {
	n := Resources{}
	for name, q := range list {
		switch {
		case name == v1.ResourceCPU:
			n[name] = q.MilliValue()
		case counted(name):
			n[name] = q.Value()
		}
	}
	return n
}

// ResourcesOf returns what a pod, with its classes resolved, needs of a node, by the
// API's rule: init containers run one after the other, next to the sidecars that
// started before them; the regular containers run together with all sidecars; what
// the pod itself requests replaces the sum; the overhead is added.
func ResourcesOf(pod *v1.Pod) Resources {
	running, peak := Resources{}, Resources{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := ResourcesIn(c.Resources.Requests)
		step.add(running)
		peak.raise(step)
		if podinfo.IsSidecar(c) {
			running = step
		}
	}
	running = maps.Clone(running)
	for i := range pod.Spec.Containers {
		running.add(ResourcesIn(pod.Spec.Containers[i].Resources.Requests))
	}
	peak.raise(running)
	if r := pod.Spec.Resources; r != nil {
		maps.Copy(peak, ResourcesIn(r.Requests))
	}
	peak.add(ResourcesIn(pod.Spec.Overhead))
	peak[v1.ResourcePods] = 1
	return peak
}

// Add adds other resources, multiplied by times.
func (n Resources) Add(o Resources, times int64) {
	for name, amount := range o {
		n[name] += times * amount
	}
}

func (n Resources) add(o Resources)      { n.Add(o, 1) }
func (n Resources) subtract(o Resources) { n.Add(o, -1) }

// raise sets each amount to the greater of the two.
func (n Resources) raise(o Resources) {
	for name, amount := range o {
		n[name] = max(n[name], amount)
	}
}

// Within reports whether no amount is greater than the other's.
func (n Resources) Within(o Resources) bool {
	for name, amount := range n {
		if amount > o[name] {
			return false
		}
	}
	return true
}

// names returns the names of the resources in the order in which messages list them.
func (n Resources) names() []v1.ResourceName {
	first := []v1.ResourceName{v1.ResourcePods, v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	return slices.SortedFunc(maps.Keys(n), func(a, b v1.ResourceName) int {
		at := func(name v1.ResourceName) int {
			if i := slices.Index(first, name); i >= 0 {
				return i
			}
			return len(first)
		}
		if at(a) != at(b) {
			return at(a) - at(b)
		}
		return strings.Compare(string(a), string(b))
	})
}

func amountText(name v1.ResourceName, amount int64) string {
	switch name {
	case v1.ResourceCPU:
		return resource.NewMilliQuantity(amount, resource.DecimalSI).String()
	case v1.ResourcePods:
		return fmt.Sprint(amount)
	}
	return resource.NewQuantity(amount, resource.BinarySI).String()
}
