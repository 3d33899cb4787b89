package cluster

import (
	"fmt"
	"reflect"
	"slices"
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
		Spec: v1.PodSpec{NodeName: "edge",
			Containers: []v1.Container{{Name: "main", Image: "i", Args: []string{strings.Repeat("a", size)}}}},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	r.replace(r.t, pod)
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
			t.Errorf("delivered: %v, %v, %v", r.delivered(first.UID) != nil, r.delivered(other.UID) != nil,
				r.delivered(second.UID) != nil)
		}
		st := r.podInAPI("default", "second").Status
		if st.Phase != v1.PodFailed || st.Reason != "PodsTooLarge" ||
			!strings.Contains(st.Message, "half of what other namespaces leave") {
			t.Errorf("status %s %s: %s", st.Phase, st.Reason, st.Message)
		}
		all, _ := r.a.pods.Objects()
		if size := memory(reflect.ValueOf(all["default/second"])); size > 10_000 {
			t.Errorf("%d bytes of the rejected pod are kept", size)
		}
		r.remove("pods", "default", "first")
		pass(time.Second)
		if third := r.bindSized("default", "third", testSpace/4,
			nil); func() bool { pass(time.Second); return r.delivered(third.UID) == nil }() {
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
		if r.delivered(runs.UID) == nil || r.delivered(known.UID) == nil ||
			r.podInAPI("default", "b-runs").Status.Phase == v1.PodFailed {
			t.Error("a pod that runs was rejected later")
		}
	})
}

// A daemon that starts takes pods that run as they are, also if they are listed after pods of
// many namespaces, and a pod of another namespace is still accepted.
func TestFullNodeTakesPodsThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		const space = 4 * testSpace
		r.a.budget.max = space
		for i := range 11 {
			r.bindSized(fmt.Sprintf("a%d", i), "waits", space/3, nil)
		}
		var running []*v1.Pod
		for i := range 5 {
			running = append(running, r.bindSized("kube-system", fmt.Sprint("runs", i), space/2, func(pod *v1.Pod) {
				accepted(pod)
				pod.Labels = map[string]string{"app": "a"}
				pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{}}
			}))
		}
		r.start()
		defer r.end()
		pass(time.Second)
		for _, pod := range running {
			if got := r.delivered(pod.UID); got == nil || got.Labels["app"] != "a" || len(got.Spec.EphemeralContainers) != 1 {
				t.Errorf("%s is delivered as %+v", pod.Name, got)
			}
		}
		small := r.bindSized("default", "small", 100, nil)
		pass(time.Second)
		if r.delivered(small.UID) == nil {
			t.Errorf("the pod of another namespace is rejected: %+v", r.podInAPI("default", "small").Status)
		}
	})
}

// A pod that was accepted may grow a little without space. If it grows more, by whatever can
// be changed, it runs on as it was, and its deletion is still known.
func TestChangesWithoutSpaceHaveNoEffect(t *testing.T) {
	grow := map[string]func(*v1.Pod){
		"image":       func(pod *v1.Pod) { pod.Spec.Containers[0].Image = strings.Repeat("i", testSpace) },
		"annotation":  func(pod *v1.Pod) { pod.Annotations = map[string]string{"a": strings.Repeat("a", testSpace)} },
		"tolerations": func(pod *v1.Pod) { pod.Spec.Tolerations = make([]v1.Toleration, 10_000) },
		"finalizers":  func(pod *v1.Pod) { pod.Finalizers = make([]string, 30_000) },
		"ephemeral containers": func(pod *v1.Pod) {
			pod.Spec.EphemeralContainers = make([]v1.EphemeralContainer, 100)
		},
	}
	for what, change := range grow {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newClusterHarness(t)
				r.a.budget.max = testSpace
				r.start()
				defer r.end()
				pod := r.bindSized("default", "grows", testSpace/3,
					func(pod *v1.Pod) { pod.Labels = map[string]string{"app": "a"} })
				full := r.bindSized("default", "full", testSpace/20, nil)
				pass(time.Second)
				pod.Labels["app"] = "b"
				r.replace(t, pod)
				pass(time.Second)
				if got := r.delivered(pod.UID); got == nil || got.Labels["app"] != "b" || r.delivered(full.UID) == nil {
					t.Fatalf("delivered: %v", got != nil)
				}
				pod.Labels["app"] = "c"
				change(pod)
				now := metav1.Now()
				pod.DeletionTimestamp = &now
				r.replace(t, pod)
				pass(time.Second)
				all, _ := r.a.pods.Objects()
				kept := all["default/grows"]
				if kept == nil || kept.Labels["app"] != "b" || kept.Spec.Containers[0].Image != "i" ||
					kept.DeletionTimestamp == nil {
					t.Fatalf("kept: %v", kept != nil)
				}
				if size := podMemory(kept); size > testSpace/3+podGrowth+containerMemory {
					t.Errorf("%d bytes are kept", size)
				}
				if events := (harnessEvents{r}).List(); !slices.ContainsFunc(events, func(e v1.Event) bool {
					return e.Reason == reasonPodsTooLarge && strings.Contains(e.Message, "has no effect")
				}) {
					t.Errorf("events %v", events)
				}
				if st := r.podInAPI("default", "grows").Status; st.Phase == v1.PodFailed {
					t.Errorf("status %s %s", st.Phase, st.Reason)
				}
			})
		})
	}
}

// a response to an own write that comes after the pod was removed takes no space.
func TestLateAnswerTakesNoSpace(t *testing.T) {
	b := newPodBudget(nil)
	s := newStore[*v1.Pod](func() {})
	s.reduce, s.forget, s.retain = b.reduce, b.remove, b.retain
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}}
	s.Stored(pod)
	s.Removed(pod.UID)
	s.Stored(pod)
	if b.total != 0 || len(b.pods) != 0 {
		t.Errorf("%d bytes, %d pods", b.total, len(b.pods))
	}
}

// A list with more rejected pods than are known leaves out the others until there are fewer.
func TestRejectedPodsOfAListAreBounded(t *testing.T) {
	b := newPodBudget(nil)
	b.max = 1
	var text strings.Builder
	text.WriteString(`{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[`)
	for i := range maxRefused + 100 {
		fmt.Fprintf(&text, `{"metadata":{"namespace":"default","name":"p%d","uid":"u%d"}},`, i, i)
	}
	text.WriteString(`{"metadata":{"namespace":"default","name":"runs","uid":"runs"},"status":{"phase":"Running"}}]}`)
	list, err := b.decodeList(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	items := list.(*objectList).Items
	if last := items[len(items)-1].(*v1.Pod); len(items) != maxRefused+1 || last.Name != "runs" ||
		b.refusal(last.UID) != "" || len(b.pods) != len(items) {
		t.Errorf("%d pods are kept, the last one is %s", len(items), last.Name)
	}
	b.retain(nil)
	if b.refused != 0 || b.total != 0 {
		t.Errorf("%d are still rejected, %d bytes", b.refused, b.total)
	}
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
