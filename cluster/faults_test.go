package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// After any fault of the connection or the API server, a pod that changes later
// is shown there correctly.
func TestFaultsOfAnAPIServer(t *testing.T) {
	tests := map[string]struct {
		fault func(r *clusterHarness)
		// within is the time in which changes in the API must be
		// noticed.
		within time.Duration
		// asks limits the requests in the meantime.
		asks int
	}{
		"the watches end":           {func(r *clusterHarness) { r.endWatches() }, time.Second, 20},
		"the connection breaks":     {func(r *clusterHarness) { r.setAway(true); r.setAway(false) }, time.Second, 20},
		"the version is expired":    {func(r *clusterHarness) { r.compact(); r.endWatches() }, time.Second, 20},
		"all data is lost":          {func(r *clusterHarness) { r.wipe() }, 2 * time.Second, 25},
		"another client deletes it": {func(r *clusterHarness) { r.remove("pods", "default", "web-edge") }, time.Second, 10},
		"the node is deleted":       {func(r *clusterHarness) { r.remove("nodes", "", "edge") }, 2 * time.Second, 20},
		"the watch stalls": {func(r *clusterHarness) {
			r.setSilent(true)
			r.remove("pods", "default", "web-edge")
			r.setSilent(false)
		}, watchSilence + time.Second, 60},
		"each watch ends at once": {func(r *clusterHarness) { r.shortWatches(); r.remove("pods", "default", "web-edge") },
			maxRetryDelay + 5*time.Second, 40},
		"it accepts and is silent": {func(r *clusterHarness) {
			r.setSilent(true)
			pass(time.Hour)
			r.requests()
			r.setSilent(false)
			r.endWatches()
		}, listTimeout, 60},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.run("web", "one")
				r.start()
				defer r.end()
				pass(time.Minute)
				if r.mirror("web") == nil {
					t.Fatal("no mirror")
				}
				r.requests()
				test.fault(r)
				pass(test.within)
				if m := r.mirror("web"); m == nil || m.DeletionTimestamp != nil || m.Status.Phase != v1.PodRunning {
					t.Fatalf("the mirror is %v", m)
				}
				if n := (&v1.Node{}); !r.get(t, "nodes", "", "edge", n) || n.Status.Conditions[0].Status != v1.ConditionTrue {
					t.Errorf("the node is %v", n)
				}
				asked := r.requests()
				if len(asked) > test.asks {
					t.Errorf("%d requests: %v", len(asked), asked)
				}
				r.run("web", "two")
				pass(time.Second)
				if m := r.mirror("web"); m == nil || m.Annotations[podinfo.AnnotationMirror] != "two" {
					t.Errorf("the mirror is still %v", m)
				}
			})
		})
	}
}

// Changes by another client are reverted, and its own fields stay.
func TestOthersWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.run("web", "one")
		r.start()
		defer r.end()
		pass(time.Second)
		m := r.mirror("web")
		m.Status.Phase = v1.PodPending
		m.Labels = map[string]string{"foreign": "stays"}
		r.replace(t, m)
		pass(time.Second)
		if m := r.mirror("web"); m.Status.Phase != v1.PodRunning || m.Labels["foreign"] != "stays" {
			t.Errorf("mirror %v", m)
		}
	})
}

// An API server that has just started may not find an existing pod:
// NodeRestriction looks it up in a cache. It is still deleted, and requests are
// rare.
func TestDeletedPodIsNotFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		missed := 0
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.verb != "DELETE" || missed == 3 {
				return nil, nil
			}
			missed++
			return nil, apierrors.NewNotFound(v1.Resource("pod"), q.name)
		}
		r.run("web", "one")
		r.start()
		defer r.end()
		pass(time.Second)
		r.requests()
		r.run("web", "two")
		pass(10 * time.Second)
		if m := r.mirror("web"); m == nil || m.Annotations[podinfo.AnnotationMirror] != "two" {
			t.Errorf("the mirror is still %v", m)
		}
		if asked := r.requests(); missed != 3 || len(asked) > 10 {
			t.Errorf("missed %d times, %d requests: %v", missed, len(asked), asked)
		}
		if events := (harnessEvents{r}).List(); len(events) > 0 {
			t.Errorf("unexpected events: %v", events)
		}
	})
}

// A clock that differs from the cluster's does not change when things are done:
// later times in the API are overwritten.
func TestClockSkew(t *testing.T) {
	for name, skew := range map[string]time.Duration{"behind": 48 * time.Hour, "ahead": -48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.run("web", "one")
				foreign := metav1.NewMicroTime(time.Now().Add(skew))
				holder := "edge"
				r.replace(t, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: "edge", Namespace: v1.NamespaceNodeLease},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &foreign},
				})
				n := registered()
				for i := range n.Status.Conditions {
					n.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(foreign.Time)
				}
				r.replace(t, n)
				r.start()
				defer r.end()
				pass(time.Minute)
				lease := &coordinationv1.Lease{}
				if !r.get(t, "leases", v1.NamespaceNodeLease, "edge", lease) ||
					time.Since(lease.Spec.RenewTime.Time) > defaultLeaseDuration/renewalsPerLease {
					t.Errorf("the lease was renewed at %v, now is %v", lease.Spec.RenewTime, time.Now())
				}
				// The report at the start.
				got := &v1.Node{}
				if !r.get(t, "nodes", "", "edge", got) {
					t.Fatal("no node")
				}
				for _, c := range got.Status.Conditions {
					if c.Type == v1.NodeReady && time.Since(c.LastHeartbeatTime.Time) > 2*time.Minute {
						t.Errorf("the last heartbeat is of %v, now is %v", c.LastHeartbeatTime, time.Now())
					}
				}
				if m := r.mirror("web"); m == nil || m.Status.Phase != v1.PodRunning {
					t.Errorf("mirror %v", m)
				}
				if asked := len(r.requests()); asked > 25 {
					t.Errorf("%d requests in a minute", asked)
				}
			})
		})
	}
}
