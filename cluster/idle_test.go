package cluster

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// becomeReady takes the status of a pod through the states of a start: until it is
// ready its conditions have reasons and messages, and afterwards they have none.
func becomeReady(st *v1.PodStatus, ready bool) {
	condition := v1.PodCondition{
		Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "ContainersNotReady",
		Message:            "containers with unready status: [main]",
		LastTransitionTime: metav1.Now().Rfc3339Copy(), ObservedGeneration: 1,
	}
	st.Phase, st.Reason, st.Message = v1.PodPending, "ErrImagePull", "not yet"
	st.ContainerStatuses = []v1.ContainerStatus{{Name: "main",
		State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not yet"}}}}
	if ready {
		condition.Status, condition.Reason, condition.Message = v1.ConditionTrue, "", ""
		*st = v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}}}
		st.ContainerStatuses = []v1.ContainerStatus{{
			Name: "main", Ready: true, ContainerID: "fake://1",
			State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.Now().Rfc3339Copy()}},
		}}
	}
	contained := condition
	contained.Type = v1.ContainersReady
	st.ObservedGeneration = 1
	st.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.Now().Rfc3339Copy()}, condition, contained}
}

// A node whose pods are all ready sends nothing but its heartbeats, and begins its
// lists and watches again when they end.
func TestIdleNodeSendsHeartbeatsOnly(t *testing.T) {
	const pods = 5
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		for _, ready := range []bool{false, true} {
			for n := range pods {
				static := aStatic()
				static.Name, static.Annotations[podinfo.AnnotationSource] = fmt.Sprintf("static%d-edge", n), "file"
				becomeReady(&static.Status, ready)
				r.set(static)
				if !ready {
					r.bind(fmt.Sprint("bound", n))
					pass(time.Second)
				}
				r.show(r.inAPI(fmt.Sprint("bound", n)).UID, func(st *v1.PodStatus) { becomeReady(st, ready) })
			}
			pass(10 * time.Second)
		}
		for n := range pods {
			for _, name := range []string{fmt.Sprintf("static%d-edge", n), fmt.Sprint("bound", n)} {
				st := r.inAPI(name).Status
				if c := conditionOf(&st, v1.PodReady); c == nil || c.Status != v1.ConditionTrue || c.Reason != "" ||
					c.Message != "" {
					t.Fatalf("%s has the condition %v", name, c)
				}
			}
		}
		r.requests()
		pass(time.Hour)
		asked := map[string]int{}
		for _, q := range r.requests() {
			if q.verb == "LIST" || q.verb == "WATCH" {
				asked["lists and watches"]++
				continue
			}
			asked[q.verb+" "+q.resource+" "+q.sub]++
		}
		leases, reports := asked["PUT leases "], asked["PATCH nodes status"]
		if want := int(time.Hour * renewalsPerLease / defaultLeaseDuration); leases < want-1 || leases > want+1 {
			t.Errorf("%d renewals of the lease, want %d", leases, want)
		}
		if want := int(time.Hour / defaultReportInterval); reports < want-2 || reports > want+1 {
			t.Errorf("%d reports of the node, want %d", reports, want)
		}
		// Two reflectors, each with at most one list and one watch per watchSilence: the fake
		// server sends no bookmarks.
		if limit := 2 * 2 * int(time.Hour/watchSilence+1); asked["lists and watches"] > limit {
			t.Errorf("%d lists and watches, want at most %d", asked["lists and watches"], limit)
		}
		for _, heartbeat := range []string{"PUT leases ", "PATCH nodes status", "lists and watches"} {
			delete(asked, heartbeat)
		}
		if len(asked) > 0 {
			t.Errorf("other requests: %v", asked)
		}
	})
}

// A field of a pod's status that the API server does not know is sent twice at most, and
// does not keep a deleted pod in the API.
func TestPodStatusFieldThatTheAPIServerDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.unknownStatus = "hostIPs"
		r.start()
		defer r.end()
		pass(time.Second)
		unknown := func(st *v1.PodStatus) {
			becomeReady(st, true)
			st.HostIPs = []v1.HostIP{{IP: "192.0.2.1"}}
		}
		static := aStatic()
		static.Annotations[podinfo.AnnotationSource] = "file"
		unknown(&static.Status)
		r.set(static)
		uid := r.bind("bound")
		r.show(uid, unknown)
		pass(time.Minute)
		r.requests()
		pass(time.Hour)
		if writes := r.podWrites(); len(writes) > 0 {
			t.Fatalf("%d writes about pods that did not change", len(writes))
		}
		// A change of another client is still corrected.
		p := r.inAPI("bound")
		p.Status.Phase = v1.PodPending
		r.replace(t, p)
		pass(time.Minute)
		if p := r.inAPI("bound"); p.Status.Phase != v1.PodRunning {
			t.Errorf("the API has %v", p.Status)
		}
		r.delete("bound")
		r.show(uid, func(st *v1.PodStatus) { st.Phase = v1.PodFailed })
		r.over(uid)
		pass(time.Minute)
		if r.inAPI("bound") != nil {
			t.Error("the deleted pod is still in the API")
		}
		if writes := r.podWrites(); len(writes) > 6 {
			t.Errorf("requests %q", writes)
		}
	})
}
