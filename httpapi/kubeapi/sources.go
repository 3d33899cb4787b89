package kubeapi

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Subscribe returns a channel that is woken after a change, and what ends that.
type Subscribe func() (<-chan struct{}, func())

// PodSource serves pods. They are shared; what is set in them here is set in
// copies. A pod that is the same pointer as in the last list is the same object
// again. A pod that was not created by an API server counts as created when it
// was started, since kubectl tells its age by that.
func PodSource(list func() []*v1.Pod, subscribe Subscribe) Source {
	var mu sync.Mutex
	var last map[*v1.Pod]*v1.Pod
	return Source{
		List: func() []Object {
			mu.Lock()
			defer mu.Unlock()
			pods := list()
			out := make([]Object, 0, len(pods))
			now := make(map[*v1.Pod]*v1.Pod, len(pods))
			// Of two revisions the one that is not ending goes first, and is
			// the one that is shown.
			for _, ending := range []bool{false, true} {
				for _, p := range pods {
					if (p.DeletionTimestamp != nil) != ending {
						continue
					}
					own := last[p]
					if own == nil {
						copied := *p
						own = &copied
						if own.CreationTimestamp.IsZero() && own.Status.StartTime != nil {
							own.CreationTimestamp = *own.Status.StartTime
						}
					}
					now[p] = own
					out = append(out, own)
				}
			}
			last = now
			return out
		},
		Subscribe: subscribe,
	}
}

// EventSource serves events.
func EventSource(list func() []v1.Event, subscribe Subscribe) Source {
	return Source{
		List: func() []Object {
			events := list()
			out := make([]Object, 0, len(events))
			for i := range events {
				own := events[i]
				if own.CreationTimestamp.IsZero() {
					own.CreationTimestamp = own.FirstTimestamp
				}
				out = append(out, &own)
			}
			return out
		},
		Subscribe: subscribe,
	}
}

// NodeSource serves the one node.
func NodeSource(node func() *v1.Node, subscribe Subscribe) Source {
	return Source{
		List: func() []Object {
			own := *node()
			return []Object{&own}
		},
		Subscribe: subscribe,
	}
}

// NamespaceSource serves the namespaces that something is in, and default.
// since is when this box came up, as far as is known.
func NamespaceSource(names func() []string, since metav1.Time, subscribe Subscribe) Source {
	return Source{
		List: func() []Object {
			all := append(names(), v1.NamespaceDefault)
			slices.Sort(all)
			var out []Object
			for _, name := range slices.Compact(all) {
				out = append(out, &v1.Namespace{
					ObjectMeta: metav1.ObjectMeta{
						Name: name, UID: types.UID("namespace-" + name), CreationTimestamp: since,
						Labels: map[string]string{v1.LabelMetadataName: name},
					},
					Status: v1.NamespaceStatus{Phase: v1.NamespaceActive},
				})
			}
			return out
		},
		Subscribe: subscribe,
	}
}
