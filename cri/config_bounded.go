package cri

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// The limits of what a pod's author can add to the runtime's lists, in bytes. A pod may have
// a megabyte of labels or hooks, and one list has those of all pods: a list that is larger
// than maxMessage fails, and then no pod is observed any more.
const (
	// maxPassed is the limit of the labels, and of the annotations, of a sandbox.
	maxPassed = 16 << 10
	// maxRecovered is the limit of what is stored with a container for its termination
	// by a daemon that does not have its manifest any more.
	maxRecovered = 8 << 10
	// maxPodRecovered is that limit for all containers of a pod together.
	maxPodRecovered = 2 * maxRecovered
	// minShare is what each container may store, in however many containers: about half
	// of what it costs in the lists without that.
	minShare = 512
	// maxPathStored is the limit of a termination message path that is stored with its
	// container, which only other clients of the runtime read.
	maxPathStored = 256
	// maxIdentifying is the limit of the identifying annotations, which are hashes and
	// names. In a cluster, a pod can have other values that its author chose.
	maxIdentifying = 256
	// perEntry is about what a label or annotation costs in a list in addition to its
	// key and value.
	perEntry = 8
)

// ShareOf returns how much of a limit for all containers of a pod each of them may use.
func ShareOf(pod *v1.Pod, limit int) int {
	n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers)
	return max(limit/max(n, 1), minShare)
}

// identifying are the annotations that a later daemon reads.
var identifying = []string{podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationTemplate}

// passed returns a copy of a pod's labels or annotations for the runtime: all of them, or if
// they are larger than maxPassed, those that fit, the smallest first. omitted is the number
// of the others.
func passed(all map[string]string) (kept map[string]string, omitted int) {
	kept = maps.Clone(all)
	left := maxPassed
	for key, value := range all {
		left -= len(key) + len(value) + perEntry
	}
	if left >= 0 {
		return kept, 0
	}
	rank := func(key string) int {
		if slices.Contains(identifying, key) && len(all[key]) <= maxIdentifying {
			return 0
		}
		return len(key) + len(all[key])
	}
	left = maxPassed
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}) {
		if left -= len(key) + len(all[key]) + perEntry; left < 0 && rank(key) > 0 {
			delete(kept, key)
			omitted++
		}
	}
	return kept, omitted
}
