package podinputs

import (
	"encoding/json"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/validation"
)

// objectRevisions maps references of a pod to the revisions of the objects, empty
// for an object that does not exist.
type objectRevisions map[string]string

// objectRevisions looks up all of a pod's references. It must run before anything is
// made from the objects: a change in between is then seen, if perhaps twice.
func (r *Resolver) objectRevisions(pod *v1.Pod) objectRevisions {
	objects := r.objectsOf(pod)
	revisions := objectRevisions{}
	for _, ref := range manifest.References(pod) {
		revisions[ref.String()] = objectRevision(objects, ref)
	}
	return revisions
}

// forContainer returns the record of the objects from which a container
// is created, empty if it refers to none.
func (r objectRevisions) forContainer(pod *v1.Pod, c *v1.Container) string {
	refs := manifest.ContainerReferences(pod, c)
	if len(refs) == 0 {
		return ""
	}
	recorded := make(objectRevisions, len(refs))
	for _, ref := range refs {
		recorded[ref.String()] = r[ref.String()]
	}
	text := recorded.text()
	if len(text) > cri.ShareOf(pod, maxRecorded) {
		text = recorded.summary().text()
	}
	return text
}

func (r objectRevisions) text() string {
	text, err := json.Marshal(r)
	if err != nil {
		panic("podinputs: failed to marshal strings: " + err.Error())
	}
	return string(text)
}

// ChangedContainers returns the containers, by ID, that would be created differently
// now, with the names of the changed objects. Running ones count only in a pod with
// the annotation that asks for a restart; created but unstarted ones in any pod.
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

// changedSince names the objects whose content has changed since the container was
// created. An object that was removed since does not count.
func (r *Resolver) changedSince(pod *v1.Pod, c *cri.Container) string {
	var recorded objectRevisions
	if json.Unmarshal([]byte(c.Objects), &recorded) != nil {
		return ""
	}
	if _, ok := recorded[summaryRevisions]; ok {
		return r.changedSinceSummary(pod, c, recorded)
	}
	objects := r.objectsOf(pod)
	var changed []string
	for _, ref := range manifest.References(pod) {
		before, ok := recorded[ref.String()]
		now := objectRevision(objects, ref)
		if ok && now != "" && manifest.RevisionChanged(before, now) {
			changed = append(changed, ref.String())
		}
	}
	return strings.Join(changed, ", ")
}

// MissingObjects names the required objects that no manifest declares, one a line:
// a fault of the manifests, which does not affect running containers. It is empty
// for API pods.
func (r *Resolver) MissingObjects(pod *v1.Pod) string {
	objects := r.objectsOf(pod)
	if _, none := objects.Objects.(NoObjects); none || objects.policy.Objects != podinfo.ManifestObjects {
		return ""
	}
	var missing []string
	for _, ref := range manifest.RequiredReferences(pod) {
		if objectRevision(objects, ref) == "" {
			missing = append(missing, ref.String()+" is referenced by the pod but is in no manifest")
		}
	}
	return strings.Join(missing, "\n")
}

// ObjectsRevision returns a text that changes when an object to which the pod refers
// is added, changed or removed, so that the pod has to be synced again.
func (r *Resolver) ObjectsRevision(pod *v1.Pod) string {
	objects := r.objectsOf(pod)
	if objects.cluster != nil {
		state, _ := objects.cluster.State(pod)
		return state
	}
	refs := manifest.References(pod)
	if len(refs) == 0 {
		return ""
	}
	var text strings.Builder
	claims := false
	for _, ref := range refs {
		text.WriteString(ref.String() + "=" + objectRevision(objects, ref) + "\n")
		claims = claims || ref.Kind == manifest.KindClaim
	}
	if claims {
		// A claim that waits may be bound to any of them.
		for _, volume := range objects.Volumes() {
			text.WriteString(volume.Name + "=" + volume.ResourceVersion + " " + labels.FormatLabels(volume.Labels) + "\n")
			for _, ref := range secretsOf(volume) {
				text.WriteString(ref.String() + "=" + objectRevision(objects, ref) + "\n")
			}
		}
		for _, class := range objects.StorageClasses() {
			text.WriteString(class.Name + "=" + class.ResourceVersion + class.Annotations[validation.AnnotationDefaultClass] +
				"\n")
		}
	}
	return text.String()
}

// secretsOf returns the Secrets that the CSI driver of a volume gets.
func secretsOf(volume *v1.PersistentVolume) (refs []manifest.ObjectRef) {
	source := volume.Spec.CSI
	if source == nil {
		return nil
	}
	for _, ref := range []*v1.SecretReference{source.NodeStageSecretRef, source.NodePublishSecretRef,
		source.NodeExpandSecretRef} {
		if ref != nil {
			refs = append(refs, manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: ref.Namespace, Name: ref.Name})
		}
	}
	return refs
}
