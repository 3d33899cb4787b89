package podinputs

import (
	"encoding/json"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// Outdated reports which running containers of a static pod have the environment of a previous
// version of a ConfigMap or Secret, and what makes them use the present one; empty if none
// has. Mounted volumes are updated while a container runs and do not count, except for those
// mounted by a subPath. Nor do pods with the annotation that asks for a restart.
func (r *Resolver) Outdated(pod *v1.Pod, observed *cri.PodStatus) string {
	if observed == nil || pod.DeletionTimestamp != nil || pod.Annotations[podinfo.AnnotationRestartOnChange] == "true" ||
		r.objectsOf(pod).policy.Objects != podinfo.ManifestObjects {
		return ""
	}
	var parts []string
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.State != cri.StateRunning || c.Objects == "" {
			continue
		}
		spec := podinfo.FindContainer(&pod.Spec, c.Name)
		if spec == nil {
			continue
		}
		if what := r.fixedSince(pod, spec, c); what != "" {
			parts = append(parts, "container "+c.Name+" runs with a previous "+what)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ") + "; to use the present one: podstead restart " + manifest.BaseName(pod)
}

// fixedSince names the objects that a container has in an earlier version and does not get
// anew while it runs.
func (r *Resolver) fixedSince(pod *v1.Pod, spec *v1.Container, c *cri.Container) string {
	fixed := manifest.FixedReferences(pod, spec)
	var recorded objectRevisions
	if len(fixed) == 0 || json.Unmarshal([]byte(c.Objects), &recorded) != nil {
		return ""
	}
	if _, ok := recorded[summaryRevisions]; ok {
		if len(fixed) != len(manifest.ContainerReferences(pod, spec)) {
			return "" // which of the objects changed is not known
		}
		return r.changedSinceSummary(pod, c, recorded)
	}
	objects := r.objectsOf(pod)
	var changed []string
	for _, ref := range fixed {
		before, ok := recorded[ref.String()]
		now := objectRevision(objects, ref)
		if ok && now != "" && manifest.RevisionChanged(before, now) {
			changed = append(changed, ref.String())
		}
	}
	return strings.Join(changed, ", ")
}
