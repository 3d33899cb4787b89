package podinputs

import (
	"slices"

	v1 "k8s.io/api/core/v1"
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

// Awaited names what the pod refers to that the API server has not reported yet.
func (r *Resolver) Awaited(pod *v1.Pod) []string {
	cluster := r.objectsOf(pod).cluster
	if cluster == nil {
		return nil
	}
	_, awaited := cluster.State(pod)
	return awaited
}

// services are those that a cluster's pod has variables of: those of its
// namespace, unless it asks not to, and the API server's.
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

// isAPIServer tells by the name, as the kubelet does.
func isAPIServer(service *v1.Service) bool { return service.Name == "kubernetes" }

// token is how the pod's volumes get tokens, nil if there are none to be had.
func (r *Resolver) token(pod *v1.Pod) func(*v1.ServiceAccountTokenProjection) (string, error) {
	objects := r.objectsOf(pod).cluster
	if objects == nil {
		return nil
	}
	return func(of *v1.ServiceAccountTokenProjection) (string, error) { return objects.Token(pod, of) }
}
