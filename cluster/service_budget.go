package cluster

import (
	"io"
	"log/slog"
	"reflect"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// maxServiceMemory is the maximum of the memory in bytes of what is kept of the cluster's
// services: about 20,000 of one port.
const maxServiceMemory = 16 << 20

// serviceBudget decides which services keep their ports in memory. The others have no
// variables in pods, of which the log has one line per namespace.
type serviceBudget struct {
	log *slog.Logger

	mu sync.Mutex
	namespaceShares
	services map[types.UID]sizedService
	// reported are the namespaces in the log.
	reported map[string]bool
}

type sizedService struct {
	namespace string
	size      int
}

func newServiceBudget(log *slog.Logger) *serviceBudget {
	return &serviceBudget{
		log: log, namespaceShares: newNamespaceShares(maxServiceMemory),
		services: map[types.UID]sizedService{}, reported: map[string]bool{},
	}
}

// hasVariables reports whether a service has variables in pods: a headless one has none.
func hasVariables(s *v1.Service) bool {
	return s.Spec.ClusterIP != "" && s.Spec.ClusterIP != v1.ClusterIPNone && len(s.Spec.Ports) > 0
}

// reduce returns a service as it is kept in memory.
func (b *serviceBudget) reduce(found *v1.Service) *v1.Service {
	s := reduced(found, true)
	size := 0
	if hasVariables(s) {
		size = memory(reflect.ValueOf(s))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.services[s.UID]
	if size > 0 && !b.fits(s.Namespace, known.size, size) {
		size = 0
		if !b.reported[s.Namespace] {
			b.reported[s.Namespace] = true
			b.log.Warn("Services need too much memory: some have no variables in pods; delete services, or let pods use DNS "+
				"names", "namespace", s.Namespace, "service", s.Name)
		}
	}
	b.resize(s.Namespace, size-known.size)
	if size == 0 {
		s.Spec = v1.ServiceSpec{}
		delete(b.services, s.UID)
	} else {
		b.services[s.UID] = sizedService{s.Namespace, size}
	}
	return s
}

// decodeList reads a list of services, and keeps those that have variables.
func (b *serviceBudget) decodeList(from io.Reader) (runtime.Object, error) {
	list := &objectList{}
	var err error
	list.ListMeta, err = decodeList(from, "ServiceList", func() runtime.Object { return &v1.Service{} },
		func(o runtime.Object) {
			if s := b.reduce(o.(*v1.Service)); hasVariables(s) {
				list.Items = append(list.Items, s)
			}
		})
	return list, err
}

// remove forgets a service.
func (b *serviceBudget) remove(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(uid)
}

// forget is remove; the caller holds mu.
func (b *serviceBudget) forget(uid types.UID) {
	if s, ok := b.services[uid]; ok {
		b.resize(s.namespace, -s.size)
		delete(b.services, uid)
	}
}

// retain forgets the services that are not in the list.
func (b *serviceBudget) retain(listed []*v1.Service) {
	known := uidsOf(listed)
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid := range b.services {
		if !known[uid] {
			b.forget(uid)
		}
	}
}

func uidsOf[T metav1.Object](objects []T) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, o := range objects {
		uids[o.GetUID()] = true
	}
	return uids
}
