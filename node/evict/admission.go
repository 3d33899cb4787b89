package evict

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// runtimeTimeout limits how long the runtime may take to report about images.
const runtimeTimeout = 2 * time.Second

// Hold returns why a pod may not start now, empty if it may. A pod of an API server is to be rejected, with the
// reason that the kubelet gives; another one waits.
func (e *Evictor) Hold(pod *v1.Pod) (reason, message string) {
	condition, message := e.Admit(pod)
	switch {
	case condition == "":
		return "", ""
	case podinfo.IsAPI(pod):
		return ReasonEvicted, message
	}
	return string(condition), message + " The pod starts when the condition has cleared."
}

// Admit returns why a pod may not start now, empty if it may. Under memory
// pressure only BestEffort pods without a toleration are held, since they would be
// the first to be evicted again; under disk pressure static pods are whose images
// would have to be pulled; under any other pressure all pods are. Critical pods always
// start.
func (e *Evictor) Admit(pod *v1.Pod) (condition v1.NodeConditionType, message string) {
	if podinfo.IsCritical(pod) {
		return "", ""
	}
	var on []string
	for _, c := range e.conditions() {
		switch c {
		case v1.NodeMemoryPressure:
			if podinfo.QOSClass(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod) {
				continue
			}
		case v1.NodeDiskPressure:
			if !podinfo.IsAPI(pod) && e.hasImages(pod) {
				continue
			}
		}
		if condition == "" {
			condition = c
		}
		on = append(on, string(c))
	}
	if condition == "" {
		return "", ""
	}
	return condition, fmt.Sprintf("The node had condition: [%s].", strings.Join(on, ", "))
}

// hasImages reports whether the runtime has all images of a pod, which then needs no
// disk space to start.
func (e *Evictor) hasImages(pod *v1.Pod) bool {
	if e.cfg.HasImages == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), runtimeTimeout)
	defer cancel()
	return e.cfg.HasImages(ctx, pod)
}

// conditions returns those that are set.
func (e *Evictor) conditions() (list []v1.NodeConditionType) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range Conditions {
		if e.tracker.Under(c) {
			list = append(list, c)
		}
	}
	return list
}

// toleratesMemoryPressure reports whether a pod tolerates the taint of a node
// under memory pressure.
func toleratesMemoryPressure(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
		taint := t.Key == "" || t.Key == v1.TaintNodeMemoryPressure
		effect := t.Effect == "" || t.Effect == v1.TaintEffectNoSchedule
		equal := t.Operator == "" || t.Operator == v1.TolerationOpEqual
		return taint && effect && (t.Operator == v1.TolerationOpExists || equal && t.Value == "")
	})
}

// CanRestart reports whether a pod that was evicted at a time, for a condition or
// for none, may restart now; if not, after is when to ask again, 0 for the next
// Pods.Recheck.
func (e *Evictor) CanRestart(condition v1.NodeConditionType, at time.Time) (now bool, after time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.checked || condition != "" && e.tracker.Under(condition) {
		return false, 0
	}
	// A clock that was set back must not hold the pod for longer.
	if passed := time.Since(at); passed >= 0 && passed < e.cfg.Transition {
		return false, e.cfg.Transition - passed
	}
	return true, 0
}

// reasons of the conditions, as the kubelet's.
var reasons = map[v1.NodeConditionType]struct{ on, onText, off, offText string }{
	v1.NodeMemoryPressure: {"KubeletHasInsufficientMemory", "the node has insufficient memory",
		"KubeletHasSufficientMemory", "the node has sufficient memory"},
	v1.NodeDiskPressure: {"KubeletHasDiskPressure", "the node has disk pressure", "KubeletHasNoDiskPressure",
		"the node has no disk pressure"},
	v1.NodePIDPressure: {"KubeletHasInsufficientPID", "the node has insufficient process IDs", "KubeletHasSufficientPID",
		"the node has sufficient process IDs"},
}

// NodeConditions returns the conditions of the node; since is the start time of
// the daemon.
func (e *Evictor) NodeConditions(since time.Time) []v1.NodeCondition {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]v1.NodeCondition, 0, len(Conditions))
	for _, c := range Conditions {
		at := e.tracker.Changed(c)
		if at.IsZero() {
			at = since
		}
		n := v1.NodeCondition{Type: c, Status: v1.ConditionFalse, Reason: reasons[c].off, Message: reasons[c].offText,
			LastTransitionTime: metav1.NewTime(at.Truncate(time.Second))}
		if e.tracker.Under(c) {
			n.Status, n.Reason, n.Message = v1.ConditionTrue, reasons[c].on, reasons[c].onText
			if c == v1.NodeDiskPressure && e.diskCause != "" {
				n.Message += ": " + e.diskCause
			}
		}
		list = append(list, n)
	}
	return list
}
