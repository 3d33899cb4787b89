package cluster

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A node of a cloud registers with the taint of an uninitialized node and leaves its
// addresses, provider ID and the taint to the cloud controller manager.
func TestExternalCloud(t *testing.T) {
	inCloud := []v1.NodeAddress{{Type: v1.NodeExternalIP, Address: "198.51.100.1"},
		{Type: v1.NodeInternalIP, Address: "10.0.0.5"}}
	for name, test := range map[string]struct {
		nodeIP string
		want   []v1.NodeAddress
	}{
		"its addresses are found by the manager": {"", []v1.NodeAddress{{Type: v1.NodeHostName, Address: "edge"}}},
		"its address is configured": {"10.0.0.5",
			[]v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.5"}, {Type: v1.NodeHostName, Address: "edge"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				var nodeIP atomic.Value
				nodeIP.Store(test.nodeIP)
				r.a.cfg.Registration.ExternalCloud = true
				r.a.cfg.Registration.Taints = []v1.Taint{{Key: "own", Effect: v1.TaintEffectNoSchedule}}
				r.a.cfg.Node = func() *v1.Node {
					n := described()
					n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.5"},
						{Type: v1.NodeHostName, Address: "edge"}}
					if ip := nodeIP.Load().(string); ip != "" {
						n.Annotations = map[string]string{AnnotationNodeIP: ip}
					}
					return n
				}
				r.start()
				defer r.end()
				get := func() *v1.Node {
					t.Helper()
					pass(time.Minute)
					n := &v1.Node{}
					if !r.get(t, "nodes", "", "edge", n) {
						t.Fatal("no node")
					}
					return n
				}
				n := get()
				taints := []v1.Taint{{Key: "own", Effect: v1.TaintEffectNoSchedule},
					{Key: taintUninitialized, Value: "true", Effect: v1.TaintEffectNoSchedule}}
				if !slices.Equal(n.Spec.Taints, taints) || !slices.Equal(n.Status.Addresses, test.want) ||
					n.Annotations[AnnotationNodeIP] != test.nodeIP {
					t.Errorf("registered with taints %v, addresses %v, annotations %v", n.Spec.Taints, n.Status.Addresses,
						n.Annotations)
				}
				// The manager initializes the node.
				n.Spec.Taints, n.Spec.ProviderID, n.Status.Addresses = n.Spec.Taints[:1], "cloud://1", inCloud
				r.replace(t, n)
				if n = get(); len(n.Spec.Taints) != 1 || n.Spec.ProviderID != "cloud://1" ||
					!slices.Equal(n.Status.Addresses, inCloud) {
					t.Errorf("after the manager: %v %v", n.Spec, n.Status.Addresses)
				}
				// The node is no longer configured with an address.
				nodeIP.Store("")
				if n = get(); n.Annotations[AnnotationNodeIP] != "" || !slices.Equal(n.Status.Addresses, inCloud) {
					t.Errorf("without --node-ip: %v %v", n.Annotations, n.Status.Addresses)
				}
			})
		})
	}
}

// Events have a rate limit of their own, and heartbeats have none: a burst of events delays
// no lease.
func TestRateLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		c, err := newClient(r.config(), r.a.connection, RateLimit{QPS: 1, Burst: 1}, RateLimit{QPS: 2, Burst: 3})
		if err != nil {
			t.Fatal(err)
		}
		r.a.setClient(c)
		r.start()
		defer r.end()
		pass(time.Minute)
		r.requests()
		const events = 23
		for range events {
			harnessEvents{r}.Event(nil, v1.EventTypeNormal, "Test", "an event")
			time.Sleep(time.Nanosecond)
		}
		began := time.Now()
		pass(time.Minute)
		var sent []time.Time
		leases := 0
		for _, q := range r.requests() {
			switch q.resource {
			case "events":
				sent = append(sent, q.at)
			case "leases":
				leases++
			}
		}
		if len(sent) != events || leases < 5 {
			t.Fatalf("%d events, %d renewals of the lease", len(sent), leases)
		}
		// Three at once, then two a second.
		if took := sent[len(sent)-1].Sub(sent[0]); took < 9*time.Second || took > 11*time.Second {
			t.Errorf("%d events were sent in %s, from %s on", events, took, sent[0].Sub(began))
		}
	})
}
