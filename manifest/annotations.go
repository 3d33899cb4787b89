package manifest

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Annotations that this package puts on a pod, next to those of internal/pod.
const (
	// AnnotationTemplate hashes the part of the spec that cannot be changed
	// while the pod runs: all of it but the containers' images and their cpu
	// and memory resources. Two revisions under one UID with different
	// templates replace each other; with equal ones the change is applied in
	// place. It stays on the sandbox, so that a daemon that was away when a
	// manifest changed can tell.
	AnnotationTemplate = "podstead.io/template-hash"
)

// AnnotationMaxRestartPeriod is set by a person on a pod whose crash-looping
// containers are to wait no longer than this between restarts, as a Go
// duration such as 30s. It takes the place of the node's
// crashLoopBackOff.maxContainerRestartPeriod and has the same bounds.
const AnnotationMaxRestartPeriod = "podstead.io/max-container-restart-period"

// The bounds of AnnotationMaxRestartPeriod, the kubelet's for the node.
const (
	minRestartPeriod = time.Second
	maxRestartPeriod = 5 * time.Minute
)

// MaxRestartPeriod is the pod's own limit of the crash-loop back-off, 0 if it
// has none. Of a pod that was loaded here there is no error.
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

// AnnotationRestartOnChange is for the author of a pod: "true" restarts its
// containers when a ConfigMap or Secret changes that their variables or
// volumes are made of. Without it files are refreshed and variables stay.
const AnnotationRestartOnChange = "podstead.io/restart-on-change"
