package supervisor

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// Reasons of pods whose classes cannot be resolved.
const (
	reasonRuntimeClass  = "RuntimeClassNotFound"
	reasonPriorityClass = "PriorityClassNotFound"
	reasonClassConflict = "ClassConflict"
)

// builtInPriorities are the values of the classes that are always there.
var builtInPriorities = map[string]int32{
	"system-cluster-critical": 2_000_000_000,
	"system-node-critical":    2_000_001_000,
}

// withClasses is the pod with what its classes say of it filled in, as the API
// server's admission does: priority, overhead, node selector. handler is the
// runtime's for its runtime class, empty for the default one. A cause says what
// cannot be resolved, which then is as the pod has it. The pod itself is not
// changed.
func (s *podSyncer) withClasses(pod *v1.Pod) (resolved *v1.Pod, handler string, cause *status.Cause) {
	copied := *pod
	resolved = &copied
	cause = s.resolvePriority(resolved)
	handler, runtimeCause := s.resolveRuntimeClass(resolved)
	if cause == nil {
		cause = runtimeCause
	}
	return resolved, handler, cause
}

// resolveRuntimeClass looks a runtime class up in the manifests, then among
// those of the daemon's flags.
func (s *podSyncer) resolveRuntimeClass(pod *v1.Pod) (handler string, cause *status.Cause) {
	if pod.Spec.RuntimeClassName == nil {
		return "", nil
	}
	name := *pod.Spec.RuntimeClassName
	class, ok := s.objectsFor(pod).RuntimeClass(name)
	if !ok {
		if handler, ok := s.cfg.Runtime.Classes[name]; ok {
			return handler, nil
		}
		return "", &status.Cause{Reason: reasonRuntimeClass, Message: fmt.Sprintf(
			"spec.runtimeClassName: there is no RuntimeClass %q; add a manifest of it, start podstead with --runtime-classes=%s=HANDLER, or take it out", name, name)}
	}
	if class.Overhead != nil && len(class.Overhead.PodFixed) > 0 {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed) {
			return "", &status.Cause{Reason: reasonClassConflict, Message: fmt.Sprintf(
				"spec.overhead: is not that of RuntimeClass %q; take it out, and the class's holds", name)}
		}
		pod.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil && len(class.Scheduling.NodeSelector) > 0 {
		selector := maps.Clone(class.Scheduling.NodeSelector)
		for key, value := range pod.Spec.NodeSelector {
			if other, both := selector[key]; both && other != value {
				return "", &status.Cause{Reason: reasonClassConflict, Message: fmt.Sprintf(
					"spec.nodeSelector[%s]: is %q, and RuntimeClass %q wants %q; take it out", key, value, name, other)}
			}
			selector[key] = value
		}
		pod.Spec.NodeSelector = selector
	}
	return class.Handler, nil
}

// resolvePriority fills in the priority. Pods of an API server have theirs.
func (s *podSyncer) resolvePriority(pod *v1.Pod) *status.Cause {
	if podinfo.IsAPI(pod) {
		return nil
	}
	if pod.Spec.PriorityClassName == "" && pod.Spec.Priority == nil {
		pod.Spec.PriorityClassName = s.defaultPriorityClass(pod)
	}
	name := pod.Spec.PriorityClassName
	if name == "" {
		return nil
	}
	value, builtIn := builtInPriorities[name]
	policy := v1.PreemptLowerPriority
	if !builtIn {
		class, ok := s.objectsFor(pod).PriorityClass(name)
		if !ok {
			return &status.Cause{Reason: reasonPriorityClass, Message: fmt.Sprintf(
				"spec.priorityClassName: there is no PriorityClass %q; add a manifest of it, name system-node-critical or system-cluster-critical, or take it out", name)}
		}
		value = class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return &status.Cause{Reason: reasonClassConflict, Message: fmt.Sprintf(
			"spec.priority: is %d, and PriorityClass %q has %d; take it out, and the class's holds", *pod.Spec.Priority, name, value)}
	}
	pod.Spec.Priority = &value
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = &policy
	}
	return nil
}

// defaultPriorityClass is the class of pods that name none, empty if no manifest
// declares one: of several, that of the least value, as at the API server.
func (s *podSyncer) defaultPriorityClass(pod *v1.Pod) string {
	name, least := "", int32(0)
	for _, class := range s.objectsFor(pod).PriorityClasses() {
		if class.GlobalDefault && (name == "" || class.Value < least) {
			name, least = class.Name, class.Value
		}
	}
	return name
}
