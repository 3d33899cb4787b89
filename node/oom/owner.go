package oom

import (
	"fmt"
	"strings"
)

// Owner is the container of a killed process.
type Owner struct {
	// Pod is namespace/name; Name is the container's name, ID its ID in the
	// runtime.
	Pod, PodUID, Name, ID string
}

// Has reports whether the process was in the container.
func (o *Owner) Has(k Kill) bool { return o.ID != "" && strings.Contains(k.Cgroup, o.ID) }

// limits reports whether the exceeded limit is that of the container or of its
// pod. systemd's cgroups have underscores for the dashes of a UID.
func (o *Owner) limits(k Kill) (container, pod bool) {
	container = o.ID != "" && strings.Contains(k.Limit, o.ID)
	pod = o.PodUID != "" && (strings.Contains(k.Limit, o.PodUID) ||
		strings.Contains(k.Limit, strings.ReplaceAll(o.PodUID, "-", "_")))
	return container, pod && !container
}

// NodeMessage returns the message of the node event: the node is out of memory, or
// its pods have used all that they may. It is empty if a pod exceeded its own
// limit, the limit is unknown, or the process is not in a pod's cgroup. The owner may
// be nil.
func (k Kill) NodeMessage(o *Owner) string {
	text := "the node is out of memory"
	if k.Limit == "" {
		return ""
	}
	if k.Limit != Machine {
		if o == nil {
			return ""
		}
		if container, pod := o.limits(k); container || pod {
			return ""
		}
		text = "cgroup " + k.Limit + ", which pods share, is out of memory"
	}
	// The beginning is the kubelet's.
	text = fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d; %s", k.Process, k.PID, text)
	if o != nil {
		text += fmt.Sprintf("; the process is of container %s in pod %s", o.Name, o.Pod)
	}
	return text
}

// PodMessage returns the message of the pod event. It contains no number, so that
// repeated kills are counted as one event.
func (k Kill) PodMessage(o *Owner) string {
	why := "the node ran out of memory"
	switch container, pod := o.limits(k); {
	case container:
		why = "the container reached its memory limit"
	case pod:
		why = "the pod's containers reached its memory limit"
	case k.Limit == "":
		why = "a memory limit was reached"
	}
	return fmt.Sprintf("the kernel killed process %s of container %s: %s", k.Process, o.Name, why)
}
