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

// builtInPriorities are the values of the classes that are always there.
var builtInPriorities = map[string]int32{
	"system-cluster-critical": podinfo.CriticalPriority,
	"system-node-critical":    podinfo.NodeCriticalPriority,
}

// classes are the objects and names that a pod's classes lead to at one time.
type classes struct {
	// priorityName is the class that the pod names, or the default one. It and
	// the class are empty for a pod whose priority the API server has resolved.
	priorityName string
	priority     *schedulingv1.PriorityClass
	runtime      *nodev1.RuntimeClass
}

// classRevisions identify what a pod's classes say.
type classRevisions struct{ priorityName, priority, runtime string }

// classesOf looks the classes of a pod up.
func (r *Resolver) classesOf(pod *v1.Pod) (found classes) {
	objects := r.objectsOf(pod)
	if !objects.bound {
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

// resolve fills in what a pod's classes say of it, as the API server's admission
// does, into a copy.
func (r *Resolver) resolve(pod *v1.Pod, found classes) *Resolved {
	copied := *pod
	fault := resolvePriority(&copied, found)
	handler, runtimeFault := r.resolveRuntimeClass(&copied, found.runtime)
	if fault == nil {
		fault = runtimeFault
	}
	return &Resolved{Pod: &copied, RuntimeHandler: handler, Fault: fault}
}

// resolveRuntimeClass fills in what the pod's runtime class says. A class that no
// manifest declares is looked up among those of the daemon's flags.
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
			"spec.runtimeClassName: there is no RuntimeClass %q; add a manifest of it, start podstead with --runtime-classes=%s=HANDLER, or take it out", name, name)}
	}
	if class.Overhead != nil && len(class.Overhead.PodFixed) > 0 {
		if len(pod.Spec.Overhead) > 0 && !equality.Semantic.DeepEqual(pod.Spec.Overhead, class.Overhead.PodFixed) {
			return "", &status.Cause{Reason: ReasonClassConflict, Message: fmt.Sprintf(
				"spec.overhead: is not that of RuntimeClass %q; take it out, and the class's holds", name)}
		}
		pod.Spec.Overhead = class.Overhead.PodFixed
	}
	if class.Scheduling != nil && len(class.Scheduling.NodeSelector) > 0 {
		selector := maps.Clone(class.Scheduling.NodeSelector)
		for key, value := range pod.Spec.NodeSelector {
			if other, both := selector[key]; both && other != value {
				return "", &status.Cause{Reason: ReasonClassConflict, Message: fmt.Sprintf(
					"spec.nodeSelector[%s]: is %q, and RuntimeClass %q wants %q; take it out", key, value, name, other)}
			}
			selector[key] = value
		}
		pod.Spec.NodeSelector = selector
	}
	return class.Handler, nil
}

// resolvePriority fills in the priority. Pods of an API server have theirs.
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
				"spec.priorityClassName: there is no PriorityClass %q; add a manifest of it, name system-node-critical or system-cluster-critical, or take it out", name)}
		}
		value = class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return &status.Cause{Reason: ReasonClassConflict, Message: fmt.Sprintf(
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
func defaultPriorityClass(objects Objects) string {
	name, least := "", int32(0)
	for _, class := range objects.PriorityClasses() {
		if class.GlobalDefault && (name == "" || class.Value < least) {
			name, least = class.Name, class.Value
		}
	}
	return name
}
