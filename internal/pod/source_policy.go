package pod

import v1 "k8s.io/api/core/v1"

// ObjectScope is where the objects that a pod refers to are read: ConfigMaps,
// Secrets, claims and classes.
type ObjectScope uint8

// The scopes of objects.
const (
	// NoObjects: the pod has none.
	NoObjects ObjectScope = iota
	// ManifestObjects are those that the manifests of this node declare.
	ManifestObjects
	// ClusterObjects are those of the API server that has bound the pod.
	ClusterObjects
)

// SourcePolicy is all in which the handling of a pod depends on its source. What
// differs follows from one fact: a controller of the cluster replaces a pod that
// fails, and nothing but its manifest replaces a static pod.
type SourcePolicy struct {
	Source Source
	// Static: the pod comes from a manifest of this node, not from an API server.
	Static bool
	// Rejects: a pod that does not pass admission is Failed for good, as at the
	// kubelet. Otherwise it is held, and admitted when that becomes possible.
	Rejects bool
	// Restarts: a pod that the node disrupted, or that a user restarts, runs again
	// under its UID. Otherwise the disruption is its end.
	Restarts bool
	// YieldsName: the pod ends if a pod of another source has the same full name.
	// It is also preempted before a pod that does not yield.
	YieldsName bool
	// UpdatesInPlace: every revision of the pod is applied to what runs, and
	// revisions are distinguished by their specs. Otherwise the hashes in the pod's
	// annotations decide, and another template restarts the pod.
	UpdatesInPlace bool
	// StatusFromSource: the status in the pod that the source delivers is the
	// pod's own: its terminal phase, restart counts and foreign conditions hold.
	StatusFromSource bool
	// CheckUnsupported: nothing has checked yet whether this node can do what the
	// pod asks for. A manifest is checked when it is read.
	CheckUnsupported bool
	// PriorityResolved: spec.priority is set already. Otherwise the priority
	// classes of the objects decide.
	PriorityResolved bool
	// VerifiesImages: the pod's author is not trusted with every image on this node, so
	// that imagePullCredentialsVerificationPolicy applies. Who writes manifests is, and
	// a static pod must start with what is on the disk.
	VerifiesImages bool
	// UnknownResourcesAreFree: extended resources that nothing on this node provides are
	// counted by the scheduler alone, as at the kubelet. Otherwise the pod waits for them.
	UnknownResourcesAreFree bool
	// MayBeAway: the source may be unreachable without limit. Nothing waits for it.
	MayBeAway bool
	// Objects is where the objects are read that the pod refers to.
	Objects ObjectScope
	// RemovedText and ReplacedText report why the source no longer has the pod.
	RemovedText, ReplacedText string
}

var (
	staticPolicy = SourcePolicy{
		Static: true, Restarts: true,
		RemovedText: "its manifest was removed", ReplacedText: "another revision is in effect",
	}
	apiPolicy = SourcePolicy{
		Source: SourceAPI, Rejects: true, YieldsName: true, UpdatesInPlace: true, StatusFromSource: true,
		CheckUnsupported: true, PriorityResolved: true, VerifiesImages: true, UnknownResourcesAreFree: true, MayBeAway: true,
		Objects:     ClusterObjects,
		RemovedText: "the pod was removed from the cluster", ReplacedText: "the cluster has a new pod of this name",
	}
)

// PolicyFor returns the policy for the pods of a source. An unknown source, which
// orphans of other versions may have, is static and reads no objects.
func PolicyFor(source Source) SourcePolicy {
	if source == SourceAPI {
		return apiPolicy
	}
	policy := staticPolicy
	policy.Source = source
	if source == SourceFile || source == SourceHTTP || source == SourceOCI {
		policy.Objects = ManifestObjects
	}
	return policy
}

// PolicyOf returns the policy for a pod, by its source.
func PolicyOf(pod *v1.Pod) SourcePolicy { return PolicyFor(SourceOf(pod)) }
