package kubeapi

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// Subscribe returns a channel that is notified after a change, and a function that ends the
// subscription.
type Subscribe func() (<-chan struct{}, func())

// PodSource serves pods. The pods are shared, so that this modifies copies. The same pointer
// as in the previous list means the same object. A pod that no API server has created
// counts as created when it was started, because kubectl shows its age from that.
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
			// Of two revisions the one that is not terminating comes first, and is the one
			// that is served.
			for _, terminating := range []bool{false, true} {
				for _, p := range pods {
					if (p.DeletionTimestamp != nil) != terminating {
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
			if own.UID == "" || string(own.UID) == own.Name {
				// Events have the name as the UID. kubectl describe asks for both, and would show
				// events twice.
				own.UID = types.UID("node-" + own.Name)
			}
			own.Status.Conditions = slices.Clone(own.Status.Conditions)
			// Without an API server there are no heartbeats, and kubectl describe shows the year 1.
			for i := range own.Status.Conditions {
				if c := &own.Status.Conditions[i]; c.LastHeartbeatTime.IsZero() {
					c.LastHeartbeatTime = c.LastTransitionTime
				}
			}
			return []Object{&own}
		},
		Subscribe: subscribe,
	}
}

// NamespaceSource serves the namespaces that contain objects, and default. since is their
// creation time.
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

// SubscribeToBoth returns a subscription to the changes of two sources.
func SubscribeToBoth(first, second Subscribe) Subscribe {
	return func() (<-chan struct{}, func()) {
		one, endOne := first()
		two, endTwo := second()
		wake, done := wakeup.NewSignal(), make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-one:
				case <-two:
				}
				wake.Notify()
			}
		}()
		return wake.C(), func() {
			close(done)
			endOne()
			endTwo()
		}
	}
}
