package supervisor

import (
	"strings"
	"time"

	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// reasonWaitingForAPIServer: the API server has not reported an object to which the
// pod refers.
const reasonWaitingForAPIServer = "WaitingForAPIServer"

// apiWaitGrace is how long a pod waits for the API server before its status says so.
// Usually everything is reported before the pod is synced for the first time.
const apiWaitGrace = 2 * time.Second

// awaitObjects holds an API pod that is to start until the API server has reported
// all objects to which it refers, which notifies its worker; false if the pod waits
// for none.
func (s *podSyncer) awaitObjects(j podworkers.SyncJob, r *runState, show func(statusOverrides)) (podworkers.SyncResult, bool) {
	awaited := s.inputs.AwaitedObjects(j.Pod)
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
	show(statusOverrides{waitingFor: &status.Cause{Reason: reasonWaitingForAPIServer, Message: "waiting for the API server to report " + strings.Join(awaited, ", ")}})
	return podworkers.SyncResult{Held: true}, true
}

// refreshObjects notifies the workers of pods whose objects have changed since their
// last sync.
func (s *Supervisor) refreshObjects() {
	for _, pod := range s.wanted.list() {
		seen, _ := s.podSyncer.seenObjects.Load(pod.UID)
		if text, _ := seen.(string); text != s.podSyncer.inputs.ObjectsRevision(pod) {
			s.workers.Notify(pod.UID)
		}
	}
}
