package cri

import (
	"cmp"
	"maps"
	"slices"

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
)

// identifying are the annotations that a later daemon reads.
var identifying = []string{podinfo.AnnotationSource, podinfo.AnnotationHash, podinfo.AnnotationTemplate}

// passed returns a copy of a pod's labels or annotations for the runtime: all of them, or if
// they are larger than maxPassed, those that fit, the smallest first. omitted is the number
// of the others.
func passed(all map[string]string) (kept map[string]string, omitted int) {
	kept = maps.Clone(all)
	left := maxPassed
	for key, value := range all {
		left -= len(key) + len(value)
	}
	if left >= 0 {
		return kept, 0
	}
	rank := func(key string) int {
		if slices.Contains(identifying, key) {
			return 0
		}
		return len(key) + len(all[key])
	}
	left = maxPassed
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}) {
		if left -= len(key) + len(all[key]); left < 0 && rank(key) > 0 {
			delete(kept, key)
			omitted++
		}
	}
	return kept, omitted
}
