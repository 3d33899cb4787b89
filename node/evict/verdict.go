package evict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Admit is why a pod may not start now, empty if it may: under pressure of
// memory one that asked for none would be the first to go again, and may start if
// it tolerates that; under any other pressure each would. Critical pods start
// always.
func (e *Evictor) Admit(pod *v1.Pod) (condition v1.NodeConditionType, message string) {
	if podinfo.IsCritical(pod) {
		return "", ""
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var on []string
	for _, c := range Conditions {
		if !e.tracker.Under(c) {
			continue
		}
		if c == v1.NodeMemoryPressure && (podinfo.QOSClass(pod) != v1.PodQOSBestEffort || toleratesMemoryPressure(pod)) {
			continue
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

// toleratesMemoryPressure reports whether a pod tolerates the taint that a
// cluster gives to a node under pressure of memory.
func toleratesMemoryPressure(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
		taint := t.Key == "" || t.Key == v1.TaintNodeMemoryPressure
		effect := t.Effect == "" || t.Effect == v1.TaintEffectNoSchedule
		equal := t.Operator == "" || t.Operator == v1.TolerationOpEqual
		return taint && effect && (t.Operator == v1.TolerationOpExists || equal && t.Value == "")
	})
}

// MayReturn tells whether a pod that was evicted at a time, for a condition or
// for none, may run again now, and if not after how long to ask again; 0 leaves
// that to Pods.Recheck.
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

// reasons of the conditions, the kubelet's.
var reasons = map[v1.NodeConditionType]struct{ on, onText, off, offText string }{
	v1.NodeMemoryPressure: {"KubeletHasInsufficientMemory", "the node has insufficient memory", "KubeletHasSufficientMemory", "the node has sufficient memory"},
	v1.NodeDiskPressure:   {"KubeletHasDiskPressure", "the node has disk pressure", "KubeletHasNoDiskPressure", "the node has no disk pressure"},
	v1.NodePIDPressure:    {"KubeletHasInsufficientPID", "the node has insufficient process IDs", "KubeletHasSufficientPID", "the node has sufficient process IDs"},
}

// NodeConditions are those of the node; since is when the daemon came up.
func (e *Evictor) NodeConditions(since time.Time) []v1.NodeCondition {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]v1.NodeCondition, 0, len(Conditions))
	for _, c := range Conditions {
		at := e.tracker.Changed(c)
		if at.IsZero() {
			at = since
		}
		n := v1.NodeCondition{Type: c, Status: v1.ConditionFalse, Reason: reasons[c].off, Message: reasons[c].offText, LastTransitionTime: metav1.NewTime(at.Truncate(time.Second))}
		if e.tracker.Under(c) {
			n.Status, n.Reason, n.Message = v1.ConditionTrue, reasons[c].on, reasons[c].onText
		}
		list = append(list, n)
	}
	return list
}
