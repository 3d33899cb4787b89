package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// podWrites returns the verbs of the requests that changed pods since the last call.
func (r *clusterHarness) podWrites() (verbs []string) {
	for _, q := range r.requests() {
		if q.resource == "pods" && q.verb != "LIST" && q.verb != "WATCH" {
			verbs = append(verbs, q.verb)
		}
	}
	return verbs
}

// A deleted pod whose object a finalizer holds stays known, with its last status, until
// the object is gone: a Job reads the status there. It is deleted once.
func TestDeletedPodWithAFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.start()
		defer r.end()
		pass(time.Second)
		uid := r.bind("job")
		pod := r.inAPI("job")
		pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"}
		r.replace(t, pod)
		pass(time.Second)
		r.show(uid, func(st *v1.PodStatus) { st.Phase = v1.PodPending })
		pass(time.Second)
		r.requests()
		r.delete("job")
		r.show(uid, func(st *v1.PodStatus) { st.Phase = v1.PodFailed })
		r.over(uid)
		pass(time.Second)
		if writes := r.podWrites(); len(writes) != 2 || writes[0] != "PATCH" || writes[1] != "DELETE" {
			t.Errorf("requests %q, want a PATCH and a DELETE", writes)
		}
		pass(time.Hour)
		if writes := r.podWrites(); len(writes) > 0 {
			t.Errorf("requests %q about a pod that its finalizer holds", writes)
		}
		if p := r.inAPI("job"); p == nil || p.Status.Phase != v1.PodFailed || r.bound[uid] == nil {
			t.Fatalf("the API has %v, delivered %v", p, r.bound)
		}
		// Another client changes the status: it is corrected as before.
		pod = r.inAPI("job")
		pod.Status.Phase = v1.PodPending
		r.replace(t, pod)
		pass(time.Second)
		if p := r.inAPI("job"); p.Status.Phase != v1.PodFailed {
			t.Errorf("the API has %v", p.Status)
		}
		r.remove("pods", "default", "job")
		pass(time.Second)
		if r.bound[uid] != nil {
			t.Error("it is still known after its object was removed")
		}
	})
}

// A mirror pod with a finalizer is deleted once, and replaced when its object is gone.
func TestDeletedMirrorWithAFinalizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.run("web", "one")
		r.start()
		defer r.end()
		pass(time.Second)
		held := r.mirror("web")
		held.Finalizers = []string{"example.com/audit"}
		r.replace(t, held)
		pass(time.Second)
		r.requests()
		r.run("web", "two")
		pass(time.Hour)
		if writes := r.podWrites(); len(writes) != 1 || writes[0] != "DELETE" {
			t.Errorf("requests %q, want one DELETE", writes)
		}
		r.remove("pods", "default", "web-edge")
		pass(time.Second)
		if m := r.mirror("web"); m == nil || m.UID == held.UID || m.Annotations[podinfo.AnnotationMirror] != "two" {
			t.Errorf("the mirror is %v", m)
		}
	})
}

func TestHeldByFinalizers(t *testing.T) {
	zero, ten := int64(0), int64(10)
	deleted := func(finalizers []string, grace *int64) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}, Finalizers: finalizers,
			DeletionGracePeriodSeconds: grace}}
	}
	for name, test := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"not deleted":                {&v1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"a"}}}, false},
		"deleted by another client":  {deleted([]string{"a"}, &ten), false},
		"deleted by the node":        {deleted([]string{"a"}, &zero), true},
		"without a grace period":     {deleted([]string{"a"}, nil), true},
		"its finalizers are removed": {deleted(nil, &zero), false},
	} {
		if got := heldByFinalizers(test.pod); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
