package supervisor

import (
	"encoding/json"
	"slices"
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
func (s *podSyncer) objectRevisions(pod *v1.Pod) objectRevisions {
	objects := s.objectsFor(pod)
	revisions := objectRevisions{}
	for _, ref := range podReferences(pod) {
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

// containerReferences are the ConfigMaps and Secrets that a container's
// variables and the volumes that it mounts are made of.
func containerReferences(pod *v1.Pod, c *v1.Container) []manifest.ObjectRef {
	refs := references{namespace: pod.Namespace}
	refs.ofContainer(c)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.PersistentVolumeClaim == nil && slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == volume.Name }) {
			refs.ofVolume(volume)
		}
	}
	return refs.found
}

// changedContainers are the instances that are not what they would be now, by
// ID, with what changed. One that runs counts only in a pod that wants to be
// restarted for it; one that was never started does in any.
func (s *podSyncer) changedContainers(pod *v1.Pod, observed *cri.PodStatus) map[string]string {
	var changed map[string]string
	restarts := pod.Annotations[podinfo.AnnotationRestartOnChange] == "true"
	for i := range observed.Containers {
		c := &observed.Containers[i]
		if c.Objects == "" || !(c.State == cri.StateCreated || restarts && c.State == cri.StateRunning) {
			continue
		}
		if what := s.changedSince(pod, c); what != "" {
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
func (s *podSyncer) changedSince(pod *v1.Pod, c *cri.Container) string {
	var noted objectRevisions
	if json.Unmarshal([]byte(c.Objects), &noted) != nil {
		return ""
	}
	objects := s.objectsFor(pod)
	var changed []string
	for _, ref := range podReferences(pod) {
		before, ok := noted[ref.String()]
		now := objectRevision(objects, ref)
		if ok && now != "" && manifest.RevisionChanged(before, now) {
			changed = append(changed, ref.String())
		}
	}
	return strings.Join(changed, ", ")
}

// missingObjects tells of what the pod refers to and no manifest has, as a
// fault of the manifests. It takes nothing from what runs.
func (s *podSyncer) missingObjects(pod *v1.Pod) string {
	objects := s.objectsFor(pod)
	if _, none := objects.(noObjects); none || podinfo.IsAPI(pod) {
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

// requiredReferences are those that are not optional, but for what pulls
// images and for classes, which others settle.
func requiredReferences(pod *v1.Pod) []manifest.ObjectRef {
	refs := references{namespace: pod.Namespace, required: true}
	eachContainer(pod, func(c *v1.Container) { refs.ofContainer(c) })
	for i := range pod.Spec.Volumes {
		refs.ofVolume(&pod.Spec.Volumes[i])
	}
	return refs.found
}
