package cluster

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renewalsPerLease is how often a lease is renewed within its duration, as at the
// kubelet.
const renewalsPerLease = 4

// leaseOf returns the lease as it should be now, based on the held one, or a new
// one if that is nil.
func leaseOf(held *coordinationv1.Lease, node *v1.Node, lasts time.Duration, now time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name, Namespace: v1.NamespaceNodeLease}}
	if held != nil {
		l = held.DeepCopy()
	}
	seconds, renewed := int32(lasts/time.Second), metav1.NewMicroTime(now)
	l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.RenewTime = &node.Name, &seconds, &renewed
	return l
}

// syncLease renews the lease when that is due, and returns when it is due again.
func (a *Adapter) syncLease(ctx context.Context) (time.Duration, error) {
	// Before the registration there is nothing to renew: the watch notifies.
	node := a.node()
	if node == nil {
		a.renewed = time.Time{}
		return 0, nil
	}
	period := a.cfg.Registration.LeaseDuration / renewalsPerLease
	if wait := period - time.Since(a.renewed); wait > 0 {
		return wait, nil
	}
	now := time.Now()
	if err := a.renew(ctx, node, now); err != nil {
		return 0, fmt.Errorf("failed to renew node lease: %w", err)
	}
	a.renewed = now
	return period, nil
}

// renew writes the lease. After a failed write the known lease is dropped, so that
// the next attempt reads it first.
func (a *Adapter) renew(ctx context.Context, node *v1.Node, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	leases := a.client.coordination
	if a.lease == nil {
		found := &coordinationv1.Lease{}
		err := leases.Get().Namespace(v1.NamespaceNodeLease).Resource("leases").Name(node.Name).Do(ctx).Into(found)
		switch {
		case err == nil:
			a.lease = found
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	desired, written := leaseOf(a.lease, node, a.cfg.Registration.LeaseDuration, now), &coordinationv1.Lease{}
	request := leases.Put().Name(node.Name)
	if a.lease == nil {
		request = leases.Post()
	}
	if err := request.Namespace(v1.NamespaceNodeLease).Resource("leases").Body(desired).Do(ctx).Into(written); err != nil {
		a.lease = nil
		return err
	}
	a.lease = written
	return nil
}
