package supervisor

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// BoundObjects are what pods refer to that a cluster has bound to this node.
// Nothing of it waits for an API server. Implemented by cluster.Objects.
type BoundObjects interface {
	Objects
	// Services are those of a namespace, by name.
	Services(namespace string) []*v1.Service
	// Token is a token of the pod's service account.
	Token(pod *v1.Pod, of *v1.ServiceAccountTokenProjection) (string, error)
	// State changes when the pod has to be looked at again. awaited names what
	// the API server has not told of yet.
	State(pod *v1.Pod) (revision string, awaited []string)
}

// boundFor are the objects of a cluster's pod, nil for every other pod and
// without a cluster.
func (s *podSyncer) boundFor(pod *v1.Pod) BoundObjects {
	if !podinfo.IsAPI(pod) {
		return nil
	}
	return s.cfg.Sources.Bound
}

// awaited is what the API server has not told of yet that a pod refers to.
func (s *podSyncer) awaited(pod *v1.Pod) []string {
	objects := s.boundFor(pod)
	if objects == nil {
		return nil
	}
	_, awaited := objects.State(pod)
	return awaited
}

// reasonNotTold: the API server has not told of something that the pod refers to.
const reasonNotTold = "WaitingForAPIServer"

// apiWaitGrace is how long a pod waits for the API server before its status says so:
// mostly all is told before the pod is looked at.
const apiWaitGrace = 2 * time.Second

// awaitObjects holds a cluster's pod that is to start until the API server has
// told of all that it refers to, which wakes it; false if nothing is awaited.
func (s *podSyncer) awaitObjects(j syncJob, r *runState, show func(statusOverrides)) (syncResult, bool) {
	awaited := s.awaited(j.pod)
	if len(awaited) == 0 {
		r.waitingForAPISince = time.Time{}
		return syncResult{}, false
	}
	s.reservations.aside(j.pod.UID)
	if r.waitingForAPISince.IsZero() {
		r.waitingForAPISince = time.Now()
	}
	if left := apiWaitGrace - time.Since(r.waitingForAPISince); left > 0 {
		return syncResult{held: true, after: left}, true
	}
	show(statusOverrides{waitingFor: &status.Cause{Reason: reasonNotTold, Message: "the API server has not told yet of " + strings.Join(awaited, ", ")}})
	return syncResult{held: true}, true
}

// services are those that a cluster's pod has variables of: those of its
// namespace, unless it asks not to, and the API server's.
func (s *podSyncer) services(pod *v1.Pod) []*v1.Service {
	objects := s.boundFor(pod)
	if objects == nil {
		return nil
	}
	var found []*v1.Service
	if links := pod.Spec.EnableServiceLinks; links == nil || *links {
		found = objects.Services(pod.Namespace)
	}
	if slices.ContainsFunc(found, isAPIServer) {
		return found
	}
	for _, service := range objects.Services(v1.NamespaceDefault) {
		if isAPIServer(service) {
			found = append(slices.Clip(found), service)
		}
	}
	return found
}

// isAPIServer tells by the name, as the kubelet does.
func isAPIServer(service *v1.Service) bool { return service.Name == "kubernetes" }

// token is how the pod's volumes get tokens, nil if there are none to be had.
func (s *podSyncer) token(pod *v1.Pod) func(*v1.ServiceAccountTokenProjection) (string, error) {
	objects := s.boundFor(pod)
	if objects == nil {
		return nil
	}
	return func(of *v1.ServiceAccountTokenProjection) (string, error) { return objects.Token(pod, of) }
}
