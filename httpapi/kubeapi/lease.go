package kubeapi

import (
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// leaseDuration is the kubelet's default of nodeLeaseDurationSeconds.
	leaseDuration = 40 * time.Second
	// leasePeriod is how often the kubelet renews its lease. Reads within it get the same lease, so
	// that they cause no events of watches.
	leasePeriod = leaseDuration / 4
)

var leaseColumns = []metav1.TableColumnDefinition{
	nameColumn(),
	column("Holder", "Node that holds the lease."),
	column("Age", "Time since the daemon has described the node first."),
}

func leaseRow(o Object) []any {
	l := o.(*coordinationv1.Lease)
	holder := ""
	if l.Spec.HolderIdentity != nil {
		holder = *l.Spec.HolderIdentity
	}
	return []any{l.Name, holder, since(l.CreationTimestamp)}
}

// leaseSource serves the lease of the node, which kubectl describe node reads. A daemon that responses
// is alive: the lease is renewed when it is read, and never without a client.
func leaseSource(nodes Source) Source {
	var mu sync.Mutex
	var last *coordinationv1.Lease
	return Source{List: func() []Object {
		if nodes.List == nil {
			return nil
		}
		var out []Object
		for _, node := range nodes.List() {
			mu.Lock()
			if last == nil || last.Name != node.GetName() || time.Since(last.Spec.RenewTime.Time).Abs() >= leasePeriod {
				last = newLease(node, time.Now())
			}
			out = append(out, last)
			mu.Unlock()
		}
		return out
	}}
}

// newLease returns the lease of a node that is renewed now.
func newLease(node Object, now time.Time) *coordinationv1.Lease {
	holder, seconds, renewed := node.GetName(), int32(leaseDuration/time.Second), metav1.NewMicroTime(now)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1.NamespaceNodeLease, Name: node.GetName(), UID: types.UID("lease-" + node.GetName()),
			CreationTimestamp: node.GetCreationTimestamp(),
			OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.GetName(), UID: node.GetUID()}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed},
	}
}
