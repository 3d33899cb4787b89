package podinputs

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/volume"
)

// ClusterObjects holds the objects that API pods refer to: pods that a cluster has
// bound to this node. None of its methods waits for an API server. Implemented by
// cluster.Objects.
type ClusterObjects interface {
	Objects
	// Services returns those of a namespace, sorted by name.
	Services(namespace string) []*v1.Service
	// Token returns a token of the pod's service account.
	Token(pod *v1.Pod, projection *v1.ServiceAccountTokenProjection) (string, error)
	volume.Cluster
	// State returns a revision that changes when the pod has to be synced again.
	// awaited names the objects that the API server has not reported yet.
	State(pod *v1.Pod) (revision string, awaited []string)
	// Held returns why the objects of the pod are not requested, empty if they are.
	Held(pod *v1.Pod) string
}

// HeldObjects returns why the objects that the pod refers to are not requested, so that it
// cannot start; empty if they are. It is empty for static pods.
func (r *Resolver) HeldObjects(pod *v1.Pod) string {
	if cluster := r.objectsOf(pod).cluster; cluster != nil {
		return cluster.Held(pod)
	}
	return ""
}

// AwaitedObjects names the objects that the pod refers to and that the API server
// has not reported yet. It is empty for static pods.
func (r *Resolver) AwaitedObjects(pod *v1.Pod) []string {
	cluster := r.objectsOf(pod).cluster
	if cluster == nil {
		return nil
	}
	_, awaited := cluster.State(pod)
	return awaited
}

// ClusterClaims returns the claims of those pods whose claims a cluster binds. A pod whose objects are not requested
// waits for that.
func (r *Resolver) ClusterClaims(pods []*v1.Pod) []volume.ClusterClaim {
	var bound []*v1.Pod
	held := map[types.UID]string{}
	for _, pod := range pods {
		cluster := r.objectsOf(pod).cluster
		if cluster == nil {
			continue
		}
		bound = append(bound, pod)
		if why := cluster.Held(pod); why != "" {
			held[pod.UID] = why
		}
	}
	if len(bound) == 0 {
		return nil
	}
	claims := r.cfg.Volumes.ListClusterClaims(bound, r.cfg.ClusterObjects)
	for i := range claims {
		for j := range claims[i].Waiting {
			wait := &claims[i].Waiting[j]
			wait.Reason = cmp.Or(held[wait.Pod], wait.Reason)
		}
	}
	return claims
}

// services returns the services for which an API pod gets environment variables:
// those of its namespace, unless enableServiceLinks is false, and the API server's.
func (r *Resolver) services(pod *v1.Pod) []*v1.Service {
	objects := r.objectsOf(pod).cluster
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

// isAPIServer decides by the name, as the kubelet does.
func isAPIServer(service *v1.Service) bool { return service.Name == "kubernetes" }

// token returns the function that requests tokens for the pod's volumes, nil for
// static pods and without a cluster.
func (r *Resolver) token(pod *v1.Pod) func(*v1.ServiceAccountTokenProjection) (string, error) {
	objects := r.objectsOf(pod).cluster
	if objects == nil {
		return nil
	}
	return func(projection *v1.ServiceAccountTokenProjection) (string, error) {
		return objects.Token(pod, projection)
	}
}
