package pod

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Annotations that the author of a pod sets.
const (
	// AnnotationMaxRestartPeriod limits how long a crash-looping container of
	// the pod waits between restarts, as a Go duration such as 30s. It overrides
	// the node's crashLoopBackOff.maxContainerRestartPeriod and has the same
	// bounds.
	AnnotationMaxRestartPeriod = "podstead.io/max-container-restart-period"

	// AnnotationRestartOnChange, if "true", restarts the pod's containers when a
	// ConfigMap or Secret changes that their variables or volumes refer to.
	// Otherwise files are refreshed and variables keep their values.
	AnnotationRestartOnChange = "podstead.io/restart-on-change"

	// AnnotationManifestRevision is a number, on any pod or object of a manifest, that
	// must not decrease from one revision of the manifest to the next: an older one,
	// which was signed as well, is refused.
	AnnotationManifestRevision = "podstead.io/manifest-revision"

	// AnnotationDependsOn lists the static pods that must be Ready, or have
	// Succeeded, before the pod is started, such as "db, other-namespace/cache".
	// See DependsOn.
	AnnotationDependsOn = "podstead.io/depends-on"

	// AnnotationReplace, if ReplaceKubelet, replaces the pod as the kubelet does after
	// an edit: the old revision ends at once, and only then are the images of the new
	// one pulled. Otherwise the new revision is prepared first.
	AnnotationReplace = "podstead.io/replace"

	// AnnotationRollbackAfter is how long a new revision of the pod may take to become
	// Ready, as a Go duration such as 5m; then the last revision that was Ready
	// replaces it. 0 disables the node's default.
	AnnotationRollbackAfter = "podstead.io/rollback-after"
)

// ReplaceKubelet is the only value of AnnotationReplace.
const ReplaceKubelet = "kubelet"

// The bounds of AnnotationMaxRestartPeriod, which are the kubelet's for the node.
const (
	minRestartPeriod = time.Second
	maxRestartPeriod = 5 * time.Minute
)

// The bounds of AnnotationRollbackAfter and of the node's default, apart from 0.
const (
	MinRollbackAfter = time.Second
	MaxRollbackAfter = 24 * time.Hour
)

// RollbackAfter returns how long a revision of the pod may take to become Ready; 0 is
// without limit. set is false for a pod that leaves it to the node. A validated pod has
// no error.
func RollbackAfter(pod *v1.Pod) (after time.Duration, set bool, err error) {
	value, ok := pod.Annotations[AnnotationRollbackAfter]
	if !ok {
		return 0, false, nil
	}
	after, err = time.ParseDuration(value)
	if err != nil || after != 0 && (after < MinRollbackAfter || after > MaxRollbackAfter) {
		return 0, false, fmt.Errorf("must be a duration from %s to %s, such as 5m, or 0 for no rollback", MinRollbackAfter,
			MaxRollbackAfter)
	}
	return after, true, nil
}

// MaxRestartPeriod returns the pod's own limit of the crash-loop back-off, 0 if
// it has none. A validated pod has no error.
func MaxRestartPeriod(pod *v1.Pod) (time.Duration, error) {
	value, ok := pod.Annotations[AnnotationMaxRestartPeriod]
	if !ok {
		return 0, nil
	}
	period, err := time.ParseDuration(value)
	if err != nil || period < minRestartPeriod || period > maxRestartPeriod {
		return 0, fmt.Errorf("must be a duration from %s to %s, such as 30s", minRestartPeriod, maxRestartPeriod)
	}
	return period, nil
}
