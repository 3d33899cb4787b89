package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// bind creates a pod in the API as a scheduler that binds it to the node does.
func (r *clusterHarness) bind(name string) types.UID {
	r.t.Helper()
	_, pod := aBound()
	pod.Name, pod.UID, pod.ResourceVersion = name, "", ""
	pod.Status = v1.PodStatus{Phase: v1.PodPending,
		Conditions: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}}
	r.replace(r.t, pod)
	synctest.Wait()
	return r.inAPI(name).UID
}

// inAPI returns a pod in the API, nil if it does not exist.
func (r *clusterHarness) inAPI(name string) *v1.Pod {
	r.t.Helper()
	pod := &v1.Pod{}
	if !r.get(r.t, "pods", "default", name, pod) {
		return nil
	}
	return pod
}

// delete requests the deletion of a pod, as kubectl does.
func (r *clusterHarness) delete(name string) {
	r.t.Helper()
	pod := r.inAPI(name)
	grace := int64(5)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, &grace
	r.replace(r.t, pod)
}

// Life cycle of an API pod: a local status is in the API within 0.2 s, and the
// pod is removed when nothing of it is left and its last status was sent.
func TestLifeOfABoundPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		uid := r.bind("web")
		pass(200 * time.Millisecond)
		if r.bound[uid] == nil {
			t.Fatal("it was not delivered")
		}
		r.requests()
		r.show(uid, func(st *v1.PodStatus) { st.Phase, st.PodIP = v1.PodRunning, "10.0.0.1" })
		pass(200 * time.Millisecond)
		if p := r.inAPI("web"); p.Status.Phase != v1.PodRunning || p.Status.PodIP != "10.0.0.1" {
			t.Errorf("the API has %+v", p.Status)
		}
		if asked := r.requests(); len(asked) != 1 {
			t.Errorf("%v", asked)
		}

		r.delete("web")
		pass(time.Minute)
		if r.inAPI("web") == nil {
			t.Fatal("it was removed before it had terminated")
		}
		r.show(uid, func(st *v1.PodStatus) { st.Phase = v1.PodFailed })
		r.over(uid)
		pass(time.Second)
		if r.inAPI("web") != nil || r.bound[uid] != nil {
			t.Error("it is still there")
		}
		var verbs []string
		for _, q := range r.requests() {
			if q.resource == "pods" {
				verbs = append(verbs, q.verb)
			}
		}
		if !slices.Equal(verbs, []string{"PATCH", "DELETE"}) {
			t.Errorf("requests %q", verbs)
		}
	})
}

// While the API server is unreachable nothing is lost. It gets the outcome at
// once when it is back, and its changes in the meantime are delivered.
func TestBoundPodsWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		kept, gone := r.bind("kept"), r.bind("gone")
		pass(time.Second)
		r.setAway(true)
		pass(time.Hour)
		if len(r.bound) != 2 {
			t.Fatalf("delivered in the meantime: %v", r.bound)
		}
		r.show(kept, func(st *v1.PodStatus) { st.Phase = v1.PodRunning })
		r.remove("pods", "default", "gone")
		came := r.bind("new")
		r.setAway(false)
		pass(10 * time.Second)
		if p := r.inAPI("kept"); p.Status.Phase != v1.PodRunning {
			t.Errorf("the API has %+v", p.Status)
		}
		if r.bound[gone] != nil || r.bound[came] == nil || len(r.bound) != 2 {
			t.Errorf("delivered: %v", r.bound)
		}
	})
}

// Of two pods with one name the static one runs. The API pod gets a status that
// states this and goes when it is deleted; then the static pod gets its mirror.
func TestBoundPodWithAStaticPodsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		uid := r.bind("web-edge")
		r.run("web", "one")
		pass(time.Second)
		r.show(uid, func(st *v1.PodStatus) { st.Phase, st.Reason = v1.PodFailed, "NameTaken" })
		pass(time.Second)
		if p := r.inAPI("web-edge"); p.UID != uid || p.Status.Phase != v1.PodFailed || p.Status.Reason != "NameTaken" {
			t.Errorf("the API has %v", p)
		}
		r.requests()
		pass(time.Hour)
		for _, q := range r.requests() {
			if q.resource == "pods" && q.verb != "LIST" && q.verb != "WATCH" {
				t.Errorf("it asks %v", q)
			}
		}
		events := slices.DeleteFunc((harnessEvents{r}).List(), func(e v1.Event) bool { return e.Reason != "FailedMirror" })
		if len(events) != 1 {
			t.Errorf("events %v", events)
		}
		r.delete("web-edge")
		r.over(uid)
		pass(5 * time.Second)
		if m := r.mirror("web"); m == nil || m.Annotations[podinfo.AnnotationMirror] != "one" {
			t.Errorf("the mirror is %v", m)
		}
	})
}
