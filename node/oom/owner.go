package oom

import (
	"fmt"
	"strings"
)

// Owner is the container that a victim was in.
type Owner struct {
	// Pod is namespace and name; Name is the container's, ID the runtime's.
	Pod, PodUID, Name, ID string
}

// Has reports whether the victim was in the container.
func (o *Owner) Has(k Kill) bool { return o.ID != "" && strings.Contains(k.Cgroup, o.ID) }

// limits reports whether the limit that was reached is the container's or its
// pod's. Systemd's cgroups have underscores for the dashes of a UID.
func (o *Owner) limits(k Kill) (container, pod bool) {
	container = o.ID != "" && strings.Contains(k.Limit, o.ID)
	pod = o.PodUID != "" && (strings.Contains(k.Limit, o.PodUID) || strings.Contains(k.Limit, strings.ReplaceAll(o.PodUID, "-", "_")))
	return container, pod && !container
}

// OfNode is what to tell of the node: that it is out of memory, or all that its
// pods may have is used up. It is empty if a pod reached its own limit, or a
// program that is none of ours did. The owner may be nil.
func (k Kill) NodeMessage(o *Owner) string {
	text := "the node is out of memory"
	if k.Limit != Machine {
		if o == nil {
			return ""
		}
		if container, pod := o.limits(k); container || pod {
			return ""
		}
		text = "cgroup " + k.Limit + ", which pods share, is out of memory"
	}
	text = fmt.Sprintf("%s; the kernel killed process %s (pid %d)", text, k.Process, k.PID)
	if o != nil {
		text += fmt.Sprintf(" of container %s in pod %s", o.Name, o.Pod)
	}
	return text
}

// OfPod is what to tell of the owner's pod. It has no number in it: a process
// that is killed again and again is told again, not anew.
func (k Kill) PodMessage(o *Owner) string {
	why := "the node ran out of memory"
	switch container, pod := o.limits(k); {
	case container:
		why = "the container reached its memory limit"
	case pod:
		why = "the pod's containers reached its memory limit"
	}
	return fmt.Sprintf("the kernel killed process %s of container %s: %s", k.Process, o.Name, why)
}
