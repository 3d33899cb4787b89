package supervisor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/admit"
)

// For any sequence of additions and removals: the node never runs more than it
// has resources for, no pod waits that could run, only critical pods preempt
// others, and a restart of the daemon changes nothing.
func TestRandomAdmission(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newSupervisorHarness(t, seed%2 == 0)
				defer b.kill()
				b.allocatable = cpus("4")
				// An edited pod is to wait like a new one, not while its predecessor runs on.
				b.noRollouts = true
				r := &randomPods{supervisorHarness: b, rand: rand.New(rand.NewPCG(seed, 1)), pods: map[string]*v1.Pod{}}
				b.start().config.deliver(file)
				for step := range 40 {
					what := r.step(step)
					b.after(5 * time.Minute)
					if wrong := r.wrong(); wrong != "" {
						t.Fatalf("after step %d, %s: %s\n%s\n%s", step, what, wrong, b.fake.Dump(), b.daemon.log)
					}
				}
				b.fake.Check(t)
			})
		})
	}
}

type randomPods struct {
	*supervisorHarness
	rand *rand.Rand
	pods map[string]*v1.Pod
}

// step performs a random operation and describes it.
func (r *randomPods) step(n int) string {
	names := slices.Sorted(maps.Keys(r.pods))
	amount := []string{"250m", "1", "2", "3", "5"}[r.rand.IntN(5)]
	pick := func() string { return names[r.rand.IntN(len(names))] }
	var what string
	switch k := r.rand.IntN(10); {
	case len(names) < 3 || k < 4:
		pod := requestingPod(fmt.Sprintf("p%d", n), amount)
		what = "added " + pod.Name + " with " + amount
		switch r.rand.IntN(8) {
		case 0:
			pod.Spec.PriorityClassName = "system-node-critical"
			what += ", critical"
		case 1:
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80}}
			what += ", port 80"
		}
		r.pods[pod.Name] = pod
	case k < 7:
		name := pick()
		what = "removed " + name
		delete(r.pods, name)
	case k < 9:
		name := pick()
		what = "edited " + name + " to " + amount
		pod := revisedPod(name, amount, fmt.Sprintf("%s-%d", name, n))
		pod.Spec.PriorityClassName, pod.Spec.Containers[0].Ports = r.pods[name].Spec.PriorityClassName,
			r.pods[name].Spec.Containers[0].Ports
		r.pods[name] = pod
	default:
		before := r.states()
		r.restart(slices.Collect(maps.Values(r.pods))...)
		r.after(5 * time.Minute)
		if now := r.states(); !maps.Equal(before, now) {
			r.t.Errorf("before the restart %v, after it %v", before, now)
		}
		return "restarted"
	}
	r.daemon.config.deliver(file, slices.Collect(maps.Values(r.pods))...)
	return what
}

// states returns the phase and reason of each desired pod, by UID.
func (r *randomPods) states() map[types.UID]string {
	states := map[types.UID]string{}
	for _, pod := range r.pods {
		st := r.daemon.status(pod.UID)
		states[pod.UID] = strings.TrimSpace(string(st.Phase) + " " + st.Reason)
	}
	return states
}

func (r *randomPods) wrong() string {
	free, ports := int64(4000), 0
	var waiting []*v1.Pod
	for uid, state := range r.states() {
		pod := r.byUID(uid)
		runs := r.running(uid)
		switch state {
		case "Running":
			free -= admit.ResourcesOf(pod)[v1.ResourceCPU]
			ports += len(podinfo.HostPorts(pod))
		case "Pending " + outOfCPU, "Pending OutOfpods", "Pending " + admit.ReasonPorts, "Failed " + admit.ReasonPreempting:
			waiting = append(waiting, pod)
		default:
			return fmt.Sprintf("%s is %q", uid, state)
		}
		if want := map[bool]int{true: 1}[state == "Running"]; runs != want {
			return fmt.Sprintf("%s is %q, and %d of it run", uid, state, runs)
		}
	}
	if free < 0 || ports > 1 {
		return fmt.Sprintf("%dm are free, %d have the port", free, ports)
	}
	for _, pod := range waiting {
		if admit.ResourcesOf(pod)[v1.ResourceCPU] <= free && len(r.pods)-len(waiting) < 10 &&
			(len(podinfo.HostPorts(pod)) == 0 || ports == 0) {
			return fmt.Sprintf("%s waits, and %dm are free", pod.UID, free)
		}
	}
	return ""
}

func (r *randomPods) byUID(uid types.UID) *v1.Pod {
	for _, pod := range r.pods {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}
