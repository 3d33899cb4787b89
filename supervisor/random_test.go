package supervisor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podprobes"
)

// TestDaemonKilledAtRandomPoints: whenever the daemon is killed and started
// again, in the middle of a start or a replacement, every container is started
// exactly once, and none is lost.
func TestDaemonKilledAtRandomPoints(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				b.fake.Latency("*", 7*time.Millisecond)
				b.fake.Behave("app", critest.Behaviour{StopAfter: 30 * time.Millisecond})
				var desired []*v1.Pod
				for round := range 20 {
					// Each round adds a pod, and replaces one.
					desired = append(desired, testPod(fmt.Sprint("web", round), types.UID(fmt.Sprint("u", round)), "r1"))
					if i := rnd.IntN(len(desired)); i < round {
						old := desired[i]
						desired[i] = testPod(old.Name, old.UID+"x", "r1")
					}
					if b.daemon == nil {
						b.start().config.deliver(file, desired...)
					} else {
						b.daemon.config.deliver(file, desired...)
					}
					b.after(time.Duration(rnd.IntN(250)) * time.Millisecond)
					b.restart(desired...)
				}
				b.after(10 * time.Minute)
				b.converged(desired, "")
				for _, pod := range desired {
					if n := b.fake.Starts(string(pod.UID), "app"); n != 1 {
						t.Errorf("container of %s was started %d times", pod.UID, n)
					}
				}
			})
		})
	}
}

// converged fails unless exactly the desired pods run, each once and in its
// revision, in addition to the foreign pod if there is one.
func (b *supervisorHarness) converged(desired []*v1.Pod, foreign types.UID) {
	b.t.Helper()
	want, containers := map[string]string{}, map[string]int{}
	for _, pod := range desired {
		want[string(pod.UID)] = pod.Annotations[podinfo.AnnotationTemplate]
		containers[string(pod.UID)] = len(podprobes.Containers(pod))
	}
	if foreign != "" {
		want[string(foreign)], containers[string(foreign)] = "", 1
	}
	for _, s := range b.fake.Sandboxes() {
		revision, ok := want[s.UID]
		switch {
		case !ok:
			b.t.Errorf("pod %s (uid %s, ready %v) is left", s.Name, s.UID, s.Ready)
		case s.Ready && revision != s.Config.Annotations[podinfo.AnnotationTemplate]:
			b.t.Errorf("pod %s (uid %s) runs in revision %s, want %s", s.Name, s.UID,
				s.Config.Annotations[podinfo.AnnotationTemplate], revision)
		}
	}
	for uid := range want {
		if n := b.running(types.UID(uid)); n != containers[uid] {
			b.t.Errorf("%d containers of pod %s run, want %d", n, uid, containers[uid])
		}
	}
	for _, pod := range desired {
		if st := b.daemon.status(pod.UID); st.Phase != v1.PodRunning {
			b.t.Errorf("status of pod %s: %s %s %s", pod.UID, st.Phase, st.Reason, st.Message)
		}
	}
	if n, m := len(b.daemon.Pods()), len(desired); n != m {
		b.t.Errorf("%d pods are shown, %d are wanted", n, m)
	}
	if b.t.Failed() {
		b.t.Log(b.fake.Dump())
		b.t.Log(b.daemon.log)
	}
}

// model is the random test's model of the expected state.
type model struct {
	*supervisorHarness
	rnd *rand.Rand
	// desired by name; disturbed holds the UIDs whose containers the test
	// itself stopped or whose spec it changed.
	desired   map[string]*v1.Pod
	disturbed map[types.UID]bool
	serial    int
	held      []*critest.Injected
	down      bool
	responses *responses
}

// withSidecar is the name of the pod that has a sidecar, an init container and
// a rule that restarts all containers.
const withSidecar = "s"

func (m *model) pod(name string, uid types.UID, revision string) *v1.Pod {
	pod := testPod(name, uid, revision)
	if name != withSidecar {
		return pod
	}
	full := restartAllPod(uid)
	full.ObjectMeta = pod.ObjectMeta
	full.Spec.RestartPolicy = v1.RestartPolicyAlways
	full.Spec.Containers = full.Spec.Containers[:1]
	policy := v1.ContainerRestartPolicyAlways
	full.Spec.Containers[0].RestartPolicy = &policy
	side := &full.Spec.InitContainers[0]
	side.StartupProbe, side.LivenessProbe = execProbe(1, 5, "up"), execProbe(1, 2, "live")
	return full
}

// TestAnythingInAnyOrder performs actions of users, crashes and runtimes in
// random order, and checks the invariants: at most one of everything at any
// time (1), nothing terminated or restarted without a cause (2, 3, 4), no
// foreign object touched (5), convergence without duplicates after lost
// responses (9).
func TestAnythingInAnyOrder(t *testing.T) {
	for seed := range seeds(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newSupervisorHarness(t, seed%2 == 0)
				defer func() { b.kill() }()
				b.fake.Put(critest.Pod{UID: "foreign", Name: "other", Namespace: "default", Containers: []string{"app"}})
				m := &model{
					supervisorHarness: b, rnd: rand.New(rand.NewPCG(seed, 99)),
					desired: map[string]*v1.Pod{}, disturbed: map[types.UID]bool{},
				}
				b.fake.Behave("app", critest.Behaviour{StopAfter: 300 * time.Millisecond})
				b.fake.Behave("other/app", critest.Behaviour{})
				b.fake.Behave("init", critest.Behaviour{RunFor: 300 * time.Millisecond})
				m.responses = answering(b.fake)
				b.fake.SetImages("img:1")
				m.held = append(m.held, b.fake.Inject("PullImage",
					critest.Fault{Image: "img:bad", Times: -1, Before: critest.Err(codes.NotFound, "not found")}))
				b.fake.Latency("*", 2*time.Millisecond)
				b.start().config.deliver(file)
				for range 80 {
					m.step()
					if v := b.fake.Violations(); len(v) > 0 {
						t.Fatalf("%v\n%s\n%s", v, b.fake.Dump(), b.daemon.log)
					}
				}
				m.settle()
			})
		})
	}
}

func (m *model) pods() []*v1.Pod {
	var pods []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(m.desired)) {
		pods = append(pods, m.desired[name])
	}
	return pods
}

func (m *model) step() {
	names := []string{"a", "b", "c", withSidecar}
	name := names[m.rnd.IntN(len(names))]
	pod := m.desired[name]
	switch m.rnd.IntN(28) {
	case 0, 1, 2: // a new pod, or an edit, which is a new UID
		m.serial++
		m.desired[name] = m.pod(name, types.UID(fmt.Sprintf("%s%d", name, m.serial)), "r1")
		m.deliver()
	case 3: // an edit under a fixed UID
		m.serial++
		m.desired[name] = m.pod(name, types.UID("fixed-"+name), fmt.Sprint("r", m.serial))
		m.disturbed[m.desired[name].UID] = true
		m.deliver()
	case 4: // removed
		delete(m.desired, name)
		m.deliver()
	case 5: // removed and added again
		if pod != nil {
			m.disturbed[pod.UID] = true
			delete(m.desired, name)
			m.deliver()
			m.after(time.Duration(m.rnd.IntN(500)) * time.Millisecond)
			m.desired[name] = pod
			m.deliver()
		}
	case 6: // touched
		m.deliver()
	case 7:
		if pod != nil {
			m.disturbed[pod.UID] = true
			m.fake.Kill(name + "/app")
		}
	case 8:
		if pod != nil {
			m.disturbed[pod.UID] = true
			m.fake.KillSandboxes(name)
		}
	case 9, 10:
		m.restart()
	case 11:
		m.fake.Disconnect()
	case 12:
		if m.down = !m.down; m.down {
			m.fake.Down()
		} else {
			m.fake.Up()
		}
	case 13, 14, 15:
		m.inject()
	case 16:
		// One wrong response at a time: a runtime that gives every call
		// the same wrong response cannot be detected.
		m.fake.StaleLists(1)
	case 17:
		m.fake.DropEvents(1 + m.rnd.IntN(3))
	case 18:
		m.fake.DoubleEvents(1 + m.rnd.IntN(3))
	case 19:
		m.after(time.Duration(m.rnd.IntN(30)) * time.Second)
	case 20, 21: // a sidecar exits, which must not affect other containers
		m.fake.Exit(withSidecar+"/side", int32(m.rnd.IntN(2)))
	case 22:
		m.responses.fail("up", m.rnd.IntN(2) == 0)
	case 23:
		m.responses.fail("live", m.rnd.IntN(2) == 0)
	case 24: // all containers restart
		if pod := m.desired[withSidecar]; pod != nil {
			m.disturbed[pod.UID] = true
			m.fake.Exit(withSidecar+"/app", 42)
		}
	case 25:
		m.fake.Exit(withSidecar+"/init", 1)
	case 26, 27: // an edit to an image that cannot be pulled until the end
		m.serial++
		m.desired[name] = withImage(m.pod(name, types.UID(fmt.Sprintf("%s%d", name, m.serial)), "r1"), "img:bad")
		m.deliver()
	}
	m.order()
	m.after(time.Duration(m.rnd.IntN(1500)) * time.Millisecond)
}

// order fails unless containers that run with a sidecar started after it: app only in a
// sandbox in which the init container has succeeded.
func (m *model) order() {
	m.t.Helper()
	done := map[string]bool{}
	for _, c := range m.fake.Containers() {
		if c.Name == "init" && c.State == runtimeapi.ContainerState_CONTAINER_EXITED && c.ExitCode == 0 {
			done[c.SandboxID] = true
		}
	}
	for _, c := range m.fake.Containers() {
		if c.Name == "app" && c.Pod == withSidecar && c.Running() && !done[c.SandboxID] {
			m.t.Fatalf("app runs before the init container has succeeded\n%s\n%s", m.fake.Dump(), m.daemon.log)
		}
	}
}

func (m *model) deliver() { m.daemon.config.deliver(file, m.pods()...) }

func (m *model) restart() {
	m.kill()
	d := m.supervisorHarness.start()
	if m.rnd.IntN(2) == 0 {
		d.config.restore(file, m.pods()...)
		m.after(time.Duration(m.rnd.IntN(3000)) * time.Millisecond)
	}
	d.config.deliver(file, m.pods()...)
}

func (m *model) inject() {
	methods := []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox",
		"RemovePodSandbox", "RemoveContainer", "ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus",
		"Status"}
	faults := []critest.Fault{
		{Before: critest.Err(codes.Unavailable, "no")},
		{Before: critest.Err(codes.Unknown, "no")},
		{After: critest.Err(codes.DeadlineExceeded, "lost")},
		{Disconnect: true},
		{DisconnectAfter: true},
		{Hang: true},
		{HangAfter: true},
		{Delay: 3 * time.Second},
	}
	fault := faults[m.rnd.IntN(len(faults))]
	fault.Times = 1 + m.rnd.IntN(2)
	m.held = append(m.held, m.fake.Inject(methods[m.rnd.IntN(len(methods))], fault))
}

// settle ends all faults and checks the final state.
func (m *model) settle() {
	if m.down {
		m.fake.Up()
	}
	for _, injected := range m.held {
		injected.Remove()
	}
	m.responses.fail("up", false)
	m.responses.fail("live", false)
	m.fake.FreshLists()
	m.after(20 * time.Minute)
	m.converged(m.pods(), "foreign")
	for _, pod := range m.pods() {
		if n := m.fake.Starts(string(pod.UID), "app"); n != 1 && !m.disturbed[pod.UID] {
			m.t.Errorf("container of %s was started %d times without a cause", pod.UID, n)
		}
	}
	m.fake.Check(m.t)
	if m.t.Failed() {
		m.t.Log(m.daemon.log)
	}
}
