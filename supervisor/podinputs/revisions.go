package podinputs

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// objectRevisions are what a pod's references lead to, by the reference; empty
// if to nothing.
type objectRevisions map[string]string

// objectRevisions looks all of a pod's references up. It is done before
// anything is made of them: a change in between is seen as one, if twice.
func (r *Resolver) objectRevisions(pod *v1.Pod) objectRevisions {
	objects := r.objectsOf(pod)
	revisions := objectRevisions{}
	for _, ref := range References(pod) {
		revisions[ref.String()] = objectRevision(objects, ref)
	}
	return revisions
}

// of is what a container notes of the objects that it is made of; empty if it
// refers to none.
func (r objectRevisions) of(pod *v1.Pod, c *v1.Container) string {
	refs := containerReferences(pod, c)
	if len(refs) == 0 {
		return ""
	}
	noted := make(objectRevisions, len(refs))
	for _, ref := range refs {
		noted[ref.String()] = r[ref.String()]
	}
	text, err := json.Marshal(noted)
	if err != nil {
		panic("supervisor: strings do not marshal: " + err.Error())
	}
	return string(text)
}

// ChangedContainers are the instances that are not what they would be now, by
// ID, with what changed. One that runs counts only in a pod that wants to be
// restarted for it; one that was never started does in any.
func (r *Resolver) ChangedContainers(pod *v1.Pod, observed *cri.PodStatus) map[string]string {
	var changed map[string]string
	restarts := pod.Annotations[podinfo.AnnotationRestartOnChange] == "true"
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.Objects == "" || !(c.State == cri.StateCreated || restarts && c.State == cri.StateRunning) {
			continue
		}
		if what := r.changedSince(pod, c); what != "" {
			if changed == nil {
				changed = map[string]string{}
			}
			changed[c.ID] = what
		}
	}
	return changed
}

// changedSince names the objects that have another content than when the
// container was made. One that is gone by now takes nothing from it.
func (r *Resolver) changedSince(pod *v1.Pod, c *cri.Container) string {
	var noted objectRevisions
	if json.Unmarshal([]byte(c.Objects), &noted) != nil {
		return ""
	}
	objects := r.objectsOf(pod)
	var changed []string
	for _, ref := range References(pod) {
		before, ok := noted[ref.String()]
		now := objectRevision(objects, ref)
		if ok && now != "" && manifest.RevisionChanged(before, now) {
			changed = append(changed, ref.String())
		}
	}
	return strings.Join(changed, ", ")
}

// MissingObjects tells of what the pod refers to and no manifest has, as a
// fault of the manifests. It takes nothing from what runs.
func (r *Resolver) MissingObjects(pod *v1.Pod) string {
	objects := r.objectsOf(pod)
	if _, none := objects.Objects.(NoObjects); none || objects.bound {
		return ""
	}
	var missing []string
	for _, ref := range requiredReferences(pod) {
		if objectRevision(objects, ref) == "" {
			missing = append(missing, ref.String()+", which the pod refers to, is in no manifest")
		}
	}
	return strings.Join(missing, "\n")
}

// Revision is what the pod's references lead to, with the revisions: it
// changes when the pod has to be looked at again.
func (r *Resolver) Revision(pod *v1.Pod) string {
	objects := r.objectsOf(pod)
	if objects.cluster != nil {
		state, _ := objects.cluster.State(pod)
		return state
	}
	refs := References(pod)
	if len(refs) == 0 {
		return ""
	}
	var text strings.Builder
	for _, ref := range refs {
		text.WriteString(ref.String() + "=" + objectRevision(objects, ref) + "\n")
	}
	return text.String()
}
