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

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// TestDaemonKilledAtRandomPoints: whenever the daemon is killed and started
// again, in the middle of a start or a replacement, every container is started
// once, none twice, none is forgotten.
func TestDaemonKilledAtRandomPoints(t *testing.T) {
	for seed := range seeds(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBed(t, func(t *testing.T, b *bed) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				b.fake.Latency("*", 7*time.Millisecond)
				b.fake.Behave("app", critest.Behaviour{StopAfter: 30 * time.Millisecond})
				var wanted []*v1.Pod
				for round := range 20 {
					// Each round brings a pod, and replaces one.
					wanted = append(wanted, testPod(fmt.Sprint("web", round), types.UID(fmt.Sprint("u", round)), "r1"))
					if i := rnd.IntN(len(wanted)); i < round {
						old := wanted[i]
						wanted[i] = testPod(old.Name, old.UID+"x", "r1")
					}
					if b.daemon == nil {
						b.start().config.deliver(file, wanted...)
					} else {
						b.daemon.config.deliver(file, wanted...)
					}
					b.after(time.Duration(rnd.IntN(250)) * time.Millisecond)
					b.restart(wanted...)
				}
				b.after(10 * time.Minute)
				b.converged(wanted, "")
				for _, pod := range wanted {
					if n := b.fake.Starts(string(pod.UID), "app"); n != 1 {
						t.Errorf("container of %s was started %d times", pod.UID, n)
					}
				}
			})
		})
	}
}

// converged fails unless exactly the wanted pods run, each once and in its
// revision, beside the foreign pod if there is one.
func (b *bed) converged(wanted []*v1.Pod, foreign types.UID) {
	b.t.Helper()
	want := map[string]string{}
	for _, pod := range wanted {
		want[string(pod.UID)] = pod.Annotations[manifest.AnnotationTemplate]
	}
	if foreign != "" {
		want[string(foreign)] = ""
	}
	for _, s := range b.fake.Sandboxes() {
		revision, ok := want[s.UID]
		switch {
		case !ok:
			b.t.Errorf("pod %s (uid %s, ready %v) is left", s.Name, s.UID, s.Ready)
		case s.Ready && revision != s.Config.Annotations[manifest.AnnotationTemplate]:
			b.t.Errorf("pod %s (uid %s) runs in revision %s, want %s", s.Name, s.UID, s.Config.Annotations[manifest.AnnotationTemplate], revision)
		}
	}
	for uid := range want {
		if n := b.running(types.UID(uid)); n != 1 {
			b.t.Errorf("%d containers of pod %s run", n, uid)
		}
	}
	for _, pod := range wanted {
		if st := b.daemon.status(pod.UID); st.Phase != v1.PodRunning {
			b.t.Errorf("status of pod %s: %s %s %s", pod.UID, st.Phase, st.Reason, st.Message)
		}
	}
	if n, m := len(b.daemon.Pods()), len(wanted); n != m {
		b.t.Errorf("%d pods are shown, %d are wanted", n, m)
	}
	if b.t.Failed() {
		b.t.Log(b.fake.Dump())
		b.t.Log(b.daemon.log)
	}
}

// model is the random test's idea of the world.
type model struct {
	*bed
	rnd *rand.Rand
	// wanted by name; disturbed are the UIDs whose containers the test itself
	// ended or whose spec it changed.
	wanted    map[string]*v1.Pod
	disturbed map[types.UID]bool
	serial    int
	held      []*critest.Injected
	down      bool
}

// TestAnythingInAnyOrder does what people, crashes and runtimes do, in random
// order, and holds the invariants against it: at most one of everything at any
// time (1), nothing ended or restarted without a cause (2, 3, 4), nothing of
// others touched (5), convergence without duplicates after lost answers (9).
func TestAnythingInAnyOrder(t *testing.T) {
	for seed := range seeds(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, seed%2 == 0)
				defer func() { b.kill() }()
				b.fake.Put(critest.Pod{UID: "theirs", Name: "other", Namespace: "default", Containers: []string{"app"}})
				m := &model{
					bed: b, rnd: rand.New(rand.NewPCG(seed, 99)),
					wanted: map[string]*v1.Pod{}, disturbed: map[types.UID]bool{},
				}
				b.fake.Behave("app", critest.Behaviour{StopAfter: 300 * time.Millisecond})
				b.fake.Behave("other/app", critest.Behaviour{})
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
	for _, name := range slices.Sorted(maps.Keys(m.wanted)) {
		pods = append(pods, m.wanted[name])
	}
	return pods
}

func (m *model) step() {
	names := []string{"a", "b", "c", "d"}
	name := names[m.rnd.IntN(len(names))]
	pod := m.wanted[name]
	switch m.rnd.IntN(20) {
	case 0, 1, 2: // a new pod, or an edit, which is a new UID
		m.serial++
		m.wanted[name] = testPod(name, types.UID(fmt.Sprintf("%s%d", name, m.serial)), "r1")
		m.deliver()
	case 3: // an edit under a fixed UID
		m.serial++
		m.wanted[name] = testPod(name, types.UID("fixed-"+name), fmt.Sprint("r", m.serial))
		m.disturbed[m.wanted[name].UID] = true
		m.deliver()
	case 4: // removed
		delete(m.wanted, name)
		m.deliver()
	case 5: // removed and added again
		if pod != nil {
			m.disturbed[pod.UID] = true
			delete(m.wanted, name)
			m.deliver()
			m.after(time.Duration(m.rnd.IntN(500)) * time.Millisecond)
			m.wanted[name] = pod
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
		// One lie at a time: a runtime that tells every look the same wrong
		// thing cannot be seen through.
		m.fake.StaleLists(1)
	case 17:
		m.fake.DropEvents(1 + m.rnd.IntN(3))
	case 18:
		m.fake.DoubleEvents(1 + m.rnd.IntN(3))
	case 19:
		m.after(time.Duration(m.rnd.IntN(30)) * time.Second)
	}
	m.after(time.Duration(m.rnd.IntN(1500)) * time.Millisecond)
}

func (m *model) deliver() { m.daemon.config.deliver(file, m.pods()...) }

func (m *model) restart() {
	m.kill()
	d := m.bed.start()
	if m.rnd.IntN(2) == 0 {
		d.config.restore(file, m.pods()...)
		m.after(time.Duration(m.rnd.IntN(3000)) * time.Millisecond)
	}
	d.config.deliver(file, m.pods()...)
}

func (m *model) inject() {
	methods := []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox",
		"RemovePodSandbox", "RemoveContainer", "ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus", "Status"}
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

// settle ends all trouble and looks whether the world is as it should be.
func (m *model) settle() {
	if m.down {
		m.fake.Up()
	}
	for _, injected := range m.held {
		injected.Remove()
	}
	m.fake.FreshLists()
	m.after(20 * time.Minute)
	m.converged(m.pods(), "theirs")
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
