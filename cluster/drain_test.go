package cluster

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.run("web", "one")
		r.start()
		defer r.end()
		pass(time.Second)
		for name, owner := range map[string]string{"app": "ReplicaSet", "agent": "DaemonSet"} {
			controller := true
			r.replace(t, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
					OwnerReferences: []metav1.OwnerReference{{Kind: owner, Controller: &controller}}},
				Spec: v1.PodSpec{NodeName: "edge"},
			})
		}
		pass(time.Second)
		evicted, guarded := []string(nil), true
		r.mu.Lock()
		r.react = func(q fakeRequest) (runtime.Object, error) {
			switch {
			case q.sub == "eviction" && guarded:
				return nil, apierrors.NewTooManyRequests("it would violate the pod's disruption budget", 0)
			case q.sub == "eviction":
				evicted = append(evicted, q.name)
				r.remove("pods", q.namespace, q.name)
				return &metav1.Status{Status: metav1.StatusSuccess}, nil
			case q.verb == "DELETE" && q.resource == "nodes":
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, q.name, nil)
			}
			return nil, nil
		}
		r.mu.Unlock()

		// A pod that may not be evicted blocks the drain, and the node
		// stays. A delayed eviction does not mean that the API server
		// is overloaded. The check is not at the exact time of a retry,
		// which would exceed the deadline.
		ctx, cancel := context.WithTimeout(t.Context(), 10*drainInterval+drainInterval/2)
		_, err := r.a.Leave(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "default/app") || strings.Contains(err.Error(), "agent") ||
			!strings.Contains(err.Error(), "disruption budget") {
			t.Errorf("the node left: %v", err)
		}
		if r.a.connection.retryAfter() > 0 {
			t.Error("the API server counts as unreachable")
		}
		pass(time.Second)
		if n := (&v1.Node{}); !r.get(t, "nodes", "", "edge", n) || !n.Spec.Unschedulable || r.mirror("web") == nil {
			t.Errorf("node %+v, mirror %v", n.Spec, r.mirror("web"))
		}
		// A pod with claims goes first: the driver that unprepares them may be a pod as well.
		controller, claim := true, "gpu"
		r.replace(t, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claims",
				OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: &controller}}},
			Spec: v1.PodSpec{NodeName: "edge", ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}},
		})
		pass(time.Second)
		r.mu.Lock()
		guarded = false
		r.mu.Unlock()
		remains, err := r.a.Leave(t.Context())
		if err != nil || !strings.Contains(remains, "kubectl delete node edge") ||
			!slices.Equal(evicted, []string{"claims", "app"}) {
			t.Errorf("remaining %q, %v, %q evicted", remains, err, evicted)
		}
		pass(time.Second)
		if r.mirror("web") != nil || r.get(t, "leases", v1.NamespaceNodeLease, "edge", &coordinationv1.Lease{}) {
			t.Error("mirror or lease still exists")
		}
		if len(r.bound) != 0 {
			t.Errorf("%d API pods still run", len(r.bound))
		}
		if len(r.list()) != 1 {
			t.Error("the static pod is gone")
		}
		// After that no requests are sent, whatever happens locally.
		r.requests()
		r.run("web", "two")
		pass(time.Hour)
		if asked := r.requests(); len(asked) > 0 {
			t.Errorf("it sent %v", asked)
		}
		if _, err := r.a.Leave(t.Context()); err == nil {
			t.Error("the node left twice")
		}
	})
}

// A client that leaves just as the daemon stops does not wait forever.
func TestLeaveAtTheEndOfTheDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		pass(time.Second)
		r.end()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := r.a.Leave(ctx); err != nil {
			t.Error(err)
		}
		if r.get(t, "leases", v1.NamespaceNodeLease, "edge", &coordinationv1.Lease{}) {
			t.Error("the lease still exists")
		}
	})
}
