package podinputs

import (
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// builtInPriorities maps the priority classes that always exist to their values.
var builtInPriorities = map[string]int32{
	"system-cluster-critical": podinfo.CriticalPriority,
	"system-node-critical":    podinfo.NodeCriticalPriority,
}

// classes holds the classes of a pod as they were at one time.
type classes struct {
	// priorityName is the priority class that the pod names, or the default one.
	// It is empty for a pod whose priority the API server has resolved.
	priorityName string
	priority     *schedulingv1.PriorityClass
	runtime      *nodev1.RuntimeClass
}

// classRevisions identifies the content of a pod's classes.
type classRevisions struct{ priorityName, priority, runtime string }

// lookupClasses finds the classes of a pod.
func (r *Resolver) lookupClasses(pod *v1.Pod) (found classes) {
	objects := r.objectsOf(pod)
	if !objects.policy.PriorityResolved {
		found.priorityName = pod.Spec.PriorityClassName
		if found.priorityName == "" && pod.Spec.Priority == nil {
			found.priorityName = defaultPriorityClass(objects)
		}
		if found.priorityName != "" {
			found.priority, _ = objects.PriorityClass(found.priorityName)
		}
	}
	if name := pod.Spec.RuntimeClassName; name != nil {
		found.runtime, _ = objects.RuntimeClass(*name)
	}
	return found
}

func (c *classes) revisions() classRevisions {
	revisions := classRevisions{priorityName: c.priorityName}
	if c.priority != nil {
		revisions.priority = c.priority.ResourceVersion
	}
	if c.runtime != nil {
		revisions.runtime = c.runtime.ResourceVersion
	}
	return revisions
}

// resolve applies a pod's classes to a copy of it, as the admission of an API
// server does.
func (r *Resolver) resolve(pod *v1.Pod, found classes) *Resolved {
	copied := *pod
	fault := resolvePriority(&copied, found)
	handler, runtimeFault := r.resolveRuntimeClass(&copied, found.runtime)
	if fault == nil {
		fault = runtimeFault
	}
	return &Resolved{Pod: &copied, RuntimeHandler: handler, Fault: fault}
}

// resolveRuntimeClass applies the pod's runtime class. A class that no manifest
// declares is looked up among those of the daemon's flags.
func (r *Resolver) resolveRuntimeClass(pod *v1.Pod, class *nodev1.RuntimeClass) (handler string, cause *status.Cause) {
	if pod.Spec.RuntimeClassName == nil {
		return "", nil
	}
	name := *pod.Spec.RuntimeClassName
	if class == nil {
		if handler, ok := r.cfg.RuntimeClasses[name]; ok {
			return handler, nil
		}
		return "", &status.Cause{Reason: ReasonRuntimeClassNotFound, Message: fmt.Sprintf(
			"spec.runtimeClassName: RuntimeClass %q not found; add a manifest that declares it, start podstead with "+
				"--runtime-classes=%s=HANDLER, or remove the field", name, name)}
	}
	if class.Overhead != nil && len(class.Overhead.PodFixed) > 0 {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed) {
			return "", &status.Cause{Reason: ReasonClassConflict, Message: fmt.Sprintf(
				"spec.overhead: differs from the overhead of RuntimeClass %q; remove the field to use that of the class", name)}
		}
		pod.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil && len(class.Scheduling.NodeSelector) > 0 {
		selector := maps.Clone(class.Scheduling.NodeSelector)
		for key, value := range pod.Spec.NodeSelector {
			if other, both := selector[key]; both && other != value {
				return "", &status.Cause{Reason: ReasonClassConflict, Message: fmt.Sprintf(
					"spec.nodeSelector[%s]: %q conflicts with %q of RuntimeClass %q; remove the entry", key, value, other, name)}
			}
			selector[key] = value
		}
		pod.Spec.NodeSelector = selector
	}
	return class.Handler, nil
}

// resolvePriority applies the pod's priority class. API pods have their priority
// already.
func resolvePriority(pod *v1.Pod, found classes) *status.Cause {
	name := found.priorityName
	if name == "" {
		return nil
	}
	pod.Spec.PriorityClassName = name
	value, builtIn := builtInPriorities[name]
	policy := v1.PreemptLowerPriority
	if !builtIn {
		class := found.priority
		if class == nil {
			return &status.Cause{Reason: ReasonPriorityClassNotFound, Message: fmt.Sprintf(
				"spec.priorityClassName: PriorityClass %q not found; add a manifest that declares it, use system-node-critical "+
					"or system-cluster-critical, or remove the field", name)}
		}
		value = class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return &status.Cause{Reason: ReasonClassConflict, Message: fmt.Sprintf(
			"spec.priority: %d conflicts with %d of PriorityClass %q; remove the field to use the value of the class",
			*pod.Spec.Priority, value, name)}
	}
	pod.Spec.Priority = &value
	if pod.Spec.PreemptionPolicy == nil {
		pod.Spec.PreemptionPolicy = &policy
	}
	return nil
}

// defaultPriorityClass returns the name of the class for pods that name none, empty
// if no manifest declares a global default. Of several the one with the lowest value
// counts, as in the API server.
func defaultPriorityClass(objects Objects) string {
	name, least := "", int32(0)
	for _, class := range objects.PriorityClasses() {
		if class.GlobalDefault && (name == "" || class.Value < least) {
			name, least = class.Name, class.Value
		}
	}
	return name
}
