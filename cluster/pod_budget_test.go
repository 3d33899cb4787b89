package cluster

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// bindSized binds a pod to the node whose specification needs about size bytes.
func (r *clusterHarness) bindSized(namespace, name string, size int, change func(*v1.Pod)) *v1.Pod {
	r.t.Helper()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.PodSpec{NodeName: "edge", Containers: []v1.Container{{Name: "main", Image: "i", Args: []string{strings.Repeat("a", size)}}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	r.put(r.t, pod)
	return r.podInAPI(namespace, name)
}

// podInAPI returns a pod in the API, nil if there is none.
func (r *clusterHarness) podInAPI(namespace, name string) *v1.Pod {
	r.t.Helper()
	pod := &v1.Pod{}
	if !r.get(r.t, "pods", namespace, name, pod) {
		return nil
	}
	return pod
}

// delivered returns the pod that was delivered with that UID, nil if there is none.
func (r *clusterHarness) delivered(uid types.UID) *v1.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bound[uid]
}

func accepted(pod *v1.Pod) { pod.Status.StartTime = &metav1.Time{Time: time.Now()} }

const testSpace = 400_000

// A pod without space is rejected in the API and is not kept in memory; others run, a
// namespace has at most half of what others leave, and the space of a pod that is gone is free
// again.
func TestPodsThatAreTooLargeAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.a.budget.max = testSpace
		r.start()
		defer r.end()
		first := r.bindSized("default", "first", testSpace/3, nil)
		pass(time.Second)
		second := r.bindSized("default", "second", testSpace/3, nil)
		other := r.bindSized("kube-system", "other", testSpace/4, nil)
		pass(time.Second)
		if r.delivered(first.UID) == nil || r.delivered(other.UID) == nil || r.delivered(second.UID) != nil {
			t.Errorf("delivered: %v, %v, %v", r.delivered(first.UID) != nil, r.delivered(other.UID) != nil, r.delivered(second.UID) != nil)
		}
		st := r.podInAPI("default", "second").Status
		if st.Phase != v1.PodFailed || st.Reason != "PodsTooLarge" || !strings.Contains(st.Message, "half of what other namespaces leave") {
			t.Errorf("status %s %s: %s", st.Phase, st.Reason, st.Message)
		}
		all, _ := r.a.pods.Objects()
		if size := memory(reflect.ValueOf(all["default/second"])); size > 10_000 {
			t.Errorf("%d bytes of the rejected pod are kept", size)
		}
		r.remove("pods", "default", "first")
		pass(time.Second)
		if third := r.bindSized("default", "third", testSpace/4, nil); func() bool { pass(time.Second); return r.delivered(third.UID) == nil }() {
			t.Error("a pod is rejected although there is space again")
		}
	})
}

// A rejected pod that is deleted is removed from the API.
func TestRejectedPodsAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.a.budget.max = testSpace
		r.start()
		defer r.end()
		r.bindSized("default", "large", testSpace, func(pod *v1.Pod) {
			now, grace := metav1.Now(), int64(30)
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &now, &grace
		})
		pass(time.Second)
		if pod := r.podInAPI("default", "large"); pod != nil {
			t.Errorf("%+v", pod.Status)
		}
	})
}

// A daemon that starts finds pods that it has accepted before: they keep their space, whatever
// waits and is listed before them, although together they have more than a namespace may.
func TestAcceptedPodsKeepTheirSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.a.budget.max = testSpace
		waits := r.bindSized("default", "a-waits", testSpace/3, nil)
		runs := r.bindSized("default", "b-runs", testSpace/2, accepted)
		known := r.bindSized("default", "c-known", testSpace/3, nil)
		r.a.budget.started = func(uid types.UID) bool { return uid == known.UID }
		ended := r.bindSized("default", "d-ended", testSpace/3, func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded })
		r.start()
		defer r.end()
		pass(time.Second)
		for _, pod := range []*v1.Pod{runs, known} {
			if got := r.delivered(pod.UID); got == nil || len(got.Spec.Containers) != 1 {
				t.Errorf("%s is not delivered", pod.Name)
			}
		}
		if got := r.podInAPI("default", "a-waits").Status; r.delivered(waits.UID) != nil || got.Reason != reasonPodsTooLarge {
			t.Errorf("the pod that waits: %+v", got)
		}
		if got := r.podInAPI("default", "d-ended").Status; r.delivered(ended.UID) != nil || got.Phase != v1.PodSucceeded {
			t.Errorf("the pod that has ended: %+v", got)
		}
		// The next list changes nothing.
		r.endWatches()
		pass(time.Minute)
		if r.delivered(runs.UID) == nil || r.delivered(known.UID) == nil || r.podInAPI("default", "b-runs").Status.Phase == v1.PodFailed {
			t.Error("a pod that runs was rejected later")
		}
	})
}

// What is added to a pod that runs is left out if it has no space; the pod runs on.
func TestAdditionsWithoutSpaceAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.a.budget.max = testSpace
		r.start()
		defer r.end()
		pod := r.bindSized("default", "grows", testSpace/4, func(pod *v1.Pod) { pod.Labels = map[string]string{"app": "a"} })
		pass(time.Second)
		pod.Annotations = map[string]string{"a": strings.Repeat("a", testSpace)}
		pod.Labels["app"] = "b"
		r.put(t, pod)
		pass(time.Second)
		all, _ := r.a.pods.Objects()
		kept := all["default/grows"]
		if kept.Labels["app"] != "a" || len(kept.Annotations) != 0 || len(kept.Spec.Containers) != 1 || r.delivered(pod.UID) == nil {
			t.Errorf("kept: labels %v, %d annotations, %d containers", kept.Labels, len(kept.Annotations), len(kept.Spec.Containers))
		}
		if now := r.podInAPI("default", "grows"); kept.ResourceVersion != now.ResourceVersion || now.Status.Phase == v1.PodFailed {
			t.Errorf("version %s is kept of %s, %s", kept.ResourceVersion, now.ResourceVersion, now.Status.Phase)
		}
	})
}

// What counts is the memory, not the size of the text: a volume needs thirty times as much.
func TestPodMemory(t *testing.T) {
	pod := &v1.Pod{}
	empty := podMemory(pod)
	pod.Spec.Volumes = make([]v1.Volume, 1000)
	for i := range pod.Spec.Volumes {
		pod.Spec.Volumes[i].EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if got := podMemory(pod) - empty; got < 1000*int(reflect.TypeFor[v1.Volume]().Size()) {
		t.Errorf("%d bytes for 1000 volumes", got)
	}
	// The runtime's list of all containers, twice each, is below 16 MiB with what the pods have.
	const most, listed, listedByPods = 16 << 20, 2000, 8 << 20
	before := podMemory(pod)
	pod.Spec.Containers = make([]v1.Container, 10)
	if each := (podMemory(pod) - before) / 10; maxPodMemory/each*listed*2+listedByPods > most {
		t.Errorf("%d bytes for a container: there can be %d", each, maxPodMemory/each)
	}
}
