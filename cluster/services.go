package cluster

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// setServices takes all services of the cluster. Their variables apply to
// containers that start later, so that only the first set notifies.
func (o *Objects) setServices(e *entry, all map[string]*v1.Service) {
	byNamespace := map[string][]*v1.Service{}
	for _, s := range all {
		byNamespace[s.Namespace] = append(byNamespace[s.Namespace], &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name},
			Spec:       v1.ServiceSpec{ClusterIP: s.Spec.ClusterIP, Ports: s.Spec.Ports},
		})
	}
	for _, list := range byNamespace {
		slices.SortFunc(list, func(a, b *v1.Service) int { return cmp.Compare(a.Name, b.Name) })
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.services = byNamespace
	if !e.known {
		e.known, e.revision = true, "known"
		o.subscribers.Notify()
	}
}

// Services returns the services of a namespace, sorted by name. They are shared:
// callers must not modify them.
func (o *Objects) Services(namespace string) []*v1.Service {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.services[namespace]
}
