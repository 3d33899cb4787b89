package cluster

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
)

// A node that another component registers is updated once it exists; its lease
// and its reports keep the configured periods, and an idle node sends no more.
func TestRegistrationElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.a.cfg.Registration = Registration{External: true, StatusInterval: 10 * time.Second, ReportInterval: time.Minute,
			LeaseDuration: 20 * time.Second}
		r.run("web", "one")
		r.start()
		defer r.end()
		pass(time.Hour)
		for _, asked := range r.requests() {
			if !strings.HasSuffix(asked.verb, "LIST") && asked.verb != "WATCH" {
				t.Errorf("%v for a node that does not exist", asked)
			}
		}
		r.replace(t, aNode())
		pass(time.Second)
		n := &v1.Node{}
		if !r.get(t, "nodes", "", "edge", n) || n.Status.Capacity.Cpu().IsZero() || len(n.Status.Conditions) != 1 ||
			n.Labels["disk"] != "ssd" {
			t.Errorf("node %+v", n)
		}
		if r.mirror("web") == nil {
			t.Error("no mirror")
		}
		r.requests()
		pass(10 * time.Minute)
		verbs := map[string]int{}
		for _, asked := range r.requests() {
			verbs[asked.verb+" "+asked.resource]++
		}
		if n := verbs["PUT leases"]; n < 119 || n > 121 {
			t.Errorf("%d renewals in ten minutes", n)
		}
		if n := verbs["PATCH nodes"]; n < 9 || n > 11 {
			t.Errorf("%d reports in ten minutes", n)
		}
		delete(verbs, "PUT leases")
		delete(verbs, "PATCH nodes")
		for what, n := range verbs {
			if n > 3 {
				t.Errorf("%d times %s in ten minutes", n, what)
			}
		}
		lease := &coordinationv1.Lease{}
		if !r.get(t, "leases", v1.NamespaceNodeLease, "edge", lease) || *lease.Spec.LeaseDurationSeconds != 20 {
			t.Errorf("lease %+v", lease)
		}
	})
}
