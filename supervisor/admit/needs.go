package admit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Needs are amounts by resource: cpu in thousandths, pods counted, the others
// in bytes. One that is not there is 0.
type Needs map[v1.ResourceName]int64

// counted reports whether the node gives a resource to pods by their requests.
// Others, such as a device's, it does not know; like the kubelet it ignores them.
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

// Amounts are the counted resources of a list.
func Amounts(list v1.ResourceList) Needs {
	n := Needs{}
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

// NeedsOf are what a pod, with its classes resolved, takes of a node, by the
// API's rule: init containers run one after the other beside the sidecars that
// started before them, the regular containers together beside all sidecars; what the
// pod itself requests stands in place of the sum; the overhead comes on top.
func NeedsOf(pod *v1.Pod) Needs {
	running, peak := Needs{}, Needs{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		step := Amounts(c.Resources.Requests)
		step.add(running)
		peak.raise(step)
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			running = step
		}
	}
	running = maps.Clone(running)
	for i := range pod.Spec.Containers {
		running.add(Amounts(pod.Spec.Containers[i].Resources.Requests))
	}
	peak.raise(running)
	if r := pod.Spec.Resources; r != nil {
		maps.Copy(peak, Amounts(r.Requests))
	}
	peak.add(Amounts(pod.Spec.Overhead))
	peak[v1.ResourcePods] = 1
	return peak
}

// Add adds others, so many times.
func (n Needs) Add(o Needs, times int64) {
	for name, amount := range o {
		n[name] += times * amount
	}
}

func (n Needs) add(o Needs)      { n.Add(o, 1) }
func (n Needs) subtract(o Needs) { n.Add(o, -1) }

// raise makes each amount the greater one.
func (n Needs) raise(o Needs) {
	for name, amount := range o {
		n[name] = max(n[name], amount)
	}
}

// Within reports whether no amount is greater than the other's.
func (n Needs) Within(o Needs) bool {
	for name, amount := range n {
		if amount > o[name] {
			return false
		}
	}
	return true
}

// names are those of the resources in the order in which people are told.
func (n Needs) names() []v1.ResourceName {
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
