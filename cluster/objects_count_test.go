package cluster

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
)

func volumesOf(prefix string, n int) (volumes []v1.Volume) {
	for i := range n {
		volumes = append(volumes, configVolume(fmt.Sprint(prefix, i)))
	}
	return volumes
}

// A pod with too many references is held, and none of them is watched.
func TestPodWithTooManyReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.start()
		greedy := r.pod("greedy", volumesOf("a", maxPodReferences+1)...)
		other := r.pod("other", volumesOf("b", maxPodReferences)...)
		pass(time.Second)
		if why := r.o.Held(greedy); !strings.Contains(why, "refers to 257") {
			t.Errorf("held: %q", why)
		}
		if why := r.o.Held(other); why != "" || len(r.o.entries) != maxPodReferences+1 {
			t.Errorf("the other is held: %q, %d entries", why, len(r.o.entries))
		}
		r.end()
	})
}

// Pods beyond the number of all references wait until others have gone.
func TestPodsWithTooManyReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.maxReferences = 20
		r.start()
		first := r.pod("first", volumesOf("a", 8)...)
		second := r.pod("a-second", volumesOf("b", 8)...)
		pass(time.Second)
		if r.o.Held(first) != "" || !strings.Contains(r.o.Held(second), "half of what other namespaces leave of 20") {
			t.Errorf("held: %q, %q", r.o.Held(first), r.o.Held(second))
		}
		held, _ := r.o.State(second)
		r.wasNotified()
		r.remove("pods", "default", "first")
		pass(time.Second)
		if now, _ := r.o.State(second); r.o.Held(second) != "" || now == held || !r.wasNotified() {
			t.Errorf("still held: %q", r.o.Held(second))
		}
		r.end()
	})
}

// A daemon that starts finds pods that run: they keep their objects, although older pods wait,
// one of them refers to more than a new pod may, and a namespace has more than half.
func TestRunningPodsKeepTheirReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.maxReferences = maxPodReferences + 20
		waits := r.pod("a-waits", volumesOf("a", 15)...)
		pass(time.Second)
		var running []*v1.Pod
		for name, n := range map[string]int{"large": maxPodReferences + 1, "small": 15} {
			pod := r.pod(name, volumesOf(name, n)...)
			pod.Status.Phase = v1.PodRunning
			r.replace(t, pod)
			running = append(running, pod)
		}
		r.start()
		pass(time.Second)
		for _, pod := range running {
			if why := r.o.Held(pod); why != "" {
				t.Errorf("%s runs and is held: %s", pod.Name, why)
			}
		}
		if why := r.o.Held(waits); !strings.Contains(why, "half of what other namespaces leave") {
			t.Errorf("the waiting pod is held: %q", why)
		}
		if _, awaited := r.o.State(waits); len(awaited) == 0 {
			t.Error("the objects of a pod that is held count as removed")
		}
		r.end()
	})
}

// A running pod that then refers to more keeps what it had, and its other objects wait.
func TestGrowingPodKeepsItsReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		pod := r.pod("grows", volumesOf("a", 8)...)
		pod.Status.Phase = v1.PodRunning
		r.replace(t, pod)
		r.start()
		pass(time.Second)
		pod.Spec.Volumes = append(pod.Spec.Volumes, volumesOf("more", maxPodReferences)...)
		r.replace(t, pod)
		pass(time.Second)
		if why := r.o.Held(pod); !strings.Contains(why, "refers to 264") || len(r.o.entries) != 9 {
			t.Errorf("held: %q, %d entries", why, len(r.o.entries))
		}
		r.end()
	})
}

// A namespace may have a few references also where others have more than all.
func TestEachNamespaceHasSomeReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.maxReferences = 200
		greedy := r.pod("greedy", volumesOf("a", 250)...)
		greedy.Status.Phase = v1.PodRunning
		r.replace(t, greedy)
		r.start()
		other := r.pod("other", volumesOf("b", 5)...)
		other.Namespace, other.ResourceVersion, other.UID = "kube-system", "", ""
		r.replace(t, other)
		pass(time.Second)
		if why := r.o.Held(other); why != "" || r.o.Held(greedy) != "" {
			t.Errorf("held: %q, %q", why, r.o.Held(greedy))
		}
		r.end()
	})
}

// What others add later does not take the references of a pod that was admitted.
func TestAdmittedPodsKeepTheirReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		r.o.maxReferences = 20
		older := r.pod("a-older", volumesOf("a", 3)...)
		pass(time.Second)
		r.start()
		admitted := r.pod("admitted", volumesOf("b", 7)...)
		pass(time.Second)
		older.Spec.Volumes = append(older.Spec.Volumes, volumesOf("more", 3)...)
		older.ResourceVersion = ""
		r.replace(t, older)
		pass(time.Second)
		if why := r.o.Held(admitted); why != "" || r.o.Held(older) == "" {
			t.Errorf("held: %q, and the one that grew: %q", why, r.o.Held(older))
		}
		r.end()
	})
}
