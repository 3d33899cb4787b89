package supervisor

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// reasonNotTold: the API server has not told of something that the pod refers to.
const reasonNotTold = "WaitingForAPIServer"

// apiWaitGrace is how long a pod waits for the API server before its status says so:
// mostly all is told before the pod is looked at.
const apiWaitGrace = 2 * time.Second

// awaitObjects holds a cluster's pod that is to start until the API server has
// told of all that it refers to, which wakes it; false if nothing is awaited.
func (s *podSyncer) awaitObjects(j podworkers.SyncJob, r *runState, show func(statusOverrides)) (podworkers.SyncResult, bool) {
	awaited := s.inputs.Awaited(j.Pod)
	if len(awaited) == 0 {
		r.waitingForAPISince = time.Time{}
		return podworkers.SyncResult{}, false
	}
	s.reservations.Withdraw(j.Pod.UID)
	if r.waitingForAPISince.IsZero() {
		r.waitingForAPISince = time.Now()
	}
	if left := apiWaitGrace - time.Since(r.waitingForAPISince); left > 0 {
		return podworkers.SyncResult{Held: true, After: left}, true
	}
	show(statusOverrides{waitingFor: &status.Cause{Reason: reasonNotTold, Message: "the API server has not told yet of " + strings.Join(awaited, ", ")}})
	return podworkers.SyncResult{Held: true}, true
}

// refreshObjects wakes the pods that were last synced with other objects.
func (s *Supervisor) refreshObjects() {
	for _, pod := range s.wanted.list() {
		seen, _ := s.podSyncer.seenObjects.Load(pod.UID)
		if text, _ := seen.(string); text != s.podSyncer.inputs.Revision(pod) {
			s.workers.Notify(pod.UID)
		}
	}
}

// Logins are what an image for no pod is pulled with: Secrets of the manifests,
// then the credentials of the node.
func (s *Supervisor) Logins(namespace string, secrets []string) cri.PullCredentials {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{podinfo.AnnotationSource: string(manifest.SourceFile)}}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return s.podSyncer.inputs.Logins(pod)
}
