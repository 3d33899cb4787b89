package gc

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// podOf makes a pod from words such as "web/3=exited@s2", newest first: the
// third restart of container web, in sandbox s2. Its age is an hour for each
// restart that came after it. Sandboxes are named by the words "s2=ready" or
// "s1=dead", newest first.
func podOf(uid string, words string) *cri.Pod {
	pod := &cri.Pod{UID: types.UID(uid), Name: uid, Namespace: "default"}
	for word := range strings.FieldsSeq(words) {
		id, state, _ := strings.Cut(word, "=")
		if state == "ready" || state == "dead" {
			pod.Sandboxes = append(pod.Sandboxes, cri.Sandbox{ID: id, Ready: state == "ready"})
			continue
		}
		state, sandbox, _ := strings.Cut(state, "@")
		name, number, _ := strings.Cut(id, "/")
		c := cri.Container{ID: uid + ":" + id, Name: name, SandboxID: sandbox}
		_, _ = fmt.Sscan(number, &c.RestartCount)
		c.CreatedAt = now.Add(time.Duration(c.RestartCount-10) * time.Hour)
		c.State = map[string]cri.State{"exited": cri.StateExited, "created": cri.StateCreated, "running": cri.StateRunning,
			"unknown": cri.StateUnknown}[state]
		pod.Containers = append(pod.Containers, c)
	}
	return pod
}

// ids are what goes, sorted.
func ids(g Garbage) string {
	var list []string
	for _, pod := range g.Pods {
		for _, c := range pod.Containers {
			list = append(list, c.ID)
		}
		for _, b := range pod.Sandboxes {
			list = append(list, string(pod.UID)+":"+b.ID)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestSelectContainers(t *testing.T) {
	for name, c := range map[string]struct {
		pods   []string
		policy ContainerPolicy
		want   string
		next   time.Duration // from now
	}{
		"nothing dead":         {pods: []string{"s1=ready web/0=running@s1"}},
		"the one before stays": {pods: []string{"s1=ready web/1=running@s1 web/0=exited@s1"}},
		"what came before that goes": {
			pods: []string{"s1=ready web/3=running@s1 web/2=exited@s1 web/1=exited@s1 web/0=exited@s1"},
			want: "p0:web/0 p0:web/1"},
		"waiting in a crash loop": {pods: []string{"s1=ready web/2=exited@s1 web/1=exited@s1"}, want: "p0:web/1"},
		"one that was created is not dead": {pods: []string{"s1=ready web/2=created@s1 web/1=exited@s1 web/0=exited@s1"},
			want: "p0:web/0"},
		"created and superseded": {pods: []string{"s1=ready web/2=running@s1 web/1=created@s1 web/0=exited@s1"},
			want: "p0:web/1"},
		"what may run stays": {
			pods: []string{"s1=ready web/3=unknown@s1 web/2=unknown@s1 web/1=running@s1 web/0=exited@s1"}},
		"each container for itself": {
			pods: []string{"s1=ready a/1=exited@s1 a/0=exited@s1 b/0=exited@s1 c/0=running@s1"}, want: "p0:a/0"},
		"none kept counts as one": {pods: []string{"s1=dead web/1=exited@s1 web/0=exited@s1"},
			policy: ContainerPolicy{MaxPerContainer: 0}, want: "p0:web/0"},
		"three kept": {
			pods:   []string{"s1=ready web/3=exited@s1 web/2=exited@s1 web/1=exited@s1 web/0=exited@s1"},
			policy: ContainerPolicy{MaxPerContainer: 3}, want: "p0:web/0"},
		"no bound": {pods: []string{"s1=ready web/3=exited@s1 web/2=exited@s1 web/1=exited@s1"},
			policy: ContainerPolicy{MaxPerContainer: -1}},
		"young ones stay": {
			pods:   []string{"s1=ready web/9=exited@s1 web/8=exited@s1 web/7=exited@s1 web/6=exited@s1"},
			policy: ContainerPolicy{MinAge: 150 * time.Minute}, want: "p0:web/6 p0:web/7", next: 30 * time.Minute},
		"total, spread evenly": {pods: []string{"a/4=exited a/3=exited a/2=exited a/1=exited",
			"a/2=exited a/1=exited"}, policy: ContainerPolicy{MaxPerContainer: -1, MaxTotal: 4}, want: "p0:a/1 p0:a/2"},
		"total never takes the last": {pods: []string{"a/2=exited a/1=exited", "a/1=exited", "b/0=exited"},
			policy: ContainerPolicy{MaxPerContainer: 5, MaxTotal: 1}, want: "p0:a/1"},
		"a clock that was set back": {pods: []string{"s1=ready web/14=exited@s1 web/13=exited@s1"},
			policy: ContainerPolicy{MinAge: 24 * time.Hour}, want: "p0:web/13"},
		"sandbox of the run before": {pods: []string{"s2=ready s1=dead web/1=running@s2"}, want: "p0:s1"},
		"sandbox goes with its last one": {
			pods: []string{"s3=ready s2=dead s1=dead web/3=running@s3 web/2=exited@s2 web/1=exited@s1"}, want: "p0:s1 p0:web/1"},
		"the newest sandbox stays":       {pods: []string{"s2=dead s1=dead"}, want: "p0:s1"},
		"an older sandbox that is ready": {pods: []string{"s2=dead s1=ready"}},
		"sandbox of a young container stays": {pods: []string{"s2=ready s1=dead web/9=exited@s2 web/8=exited@s1"},
			policy: ContainerPolicy{MinAge: 3 * time.Hour}, next: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var pods []*cri.Pod
			for i, words := range c.pods {
				pods = append(pods, podOf(fmt.Sprint("p", i), words))
			}
			g := SelectContainers(pods, c.policy, now)
			if got := ids(g); got != c.want {
				t.Errorf("goes %q, want %q", got, c.want)
			}
			next := time.Duration(0)
			if !g.Next.IsZero() {
				next = g.Next.Sub(now)
			}
			if next != c.next {
				t.Errorf("next check in %s, want %s", next, c.next)
			}
		})
	}
}

// Whatever is observed: what may run and the last end of each container stay,
// a sandbox goes only empty, and a second selection finds nothing more.
func TestSelectionKeepsWhatIsNeeded(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		pod := &cri.Pod{UID: "u"}
		for i := range r.IntN(4) {
			pod.Sandboxes = append(pod.Sandboxes, cri.Sandbox{ID: fmt.Sprint("s", i), Ready: r.IntN(3) == 0})
		}
		for i := range r.IntN(12) {
			pod.Containers = append(pod.Containers, cri.Container{
				ID: fmt.Sprint("c", i), Name: fmt.Sprint("n", r.IntN(3)), SandboxID: fmt.Sprint("s", r.IntN(4)),
				State: cri.State(r.IntN(4)), RestartCount: 20 - i, CreatedAt: now.Add(-time.Duration(i) * time.Minute),
			})
		}
		p := ContainerPolicy{MinAge: time.Duration(r.IntN(5)) * time.Minute, MaxPerContainer: r.IntN(4) - 1,
			MaxTotal: r.IntN(4)}
		g := SelectContainers([]*cri.Pod{pod}, p, now)
		goes := map[string]bool{}
		for _, id := range strings.Fields(ids(g)) {
			goes[strings.TrimPrefix(id, "u:")] = true
		}
		newest, exited := map[string]bool{}, map[string]bool{}
		for _, c := range pod.Containers {
			first := !newest[c.Name] || c.State == cri.StateExited && !exited[c.Name]
			newest[c.Name] = true
			exited[c.Name] = exited[c.Name] || c.State == cri.StateExited
			switch {
			case !goes[c.ID]:
			case first, c.State == cri.StateRunning, c.State == cri.StateUnknown, now.Sub(c.CreatedAt) < p.MinAge:
				t.Fatalf("seed %d: %s goes of %+v with %+v", seed, c.ID, pod.Containers, p)
			}
		}
		rest := &cri.Pod{UID: "u"}
		for _, c := range pod.Containers {
			if !goes[c.ID] {
				rest.Containers = append(rest.Containers, c)
			}
		}
		for i, b := range pod.Sandboxes {
			used := slices.ContainsFunc(rest.Containers, func(c cri.Container) bool { return c.SandboxID == b.ID })
			if !goes[b.ID] {
				rest.Sandboxes = append(rest.Sandboxes, b)
			} else if i == 0 || b.Ready || used {
				t.Fatalf("seed %d: sandbox %s goes of %+v", seed, b.ID, pod)
			}
		}
		if more := ids(SelectContainers([]*cri.Pod{rest}, p, now)); more != "" {
			t.Fatalf("seed %d: a second selection takes %s of %+v", seed, more, rest)
		}
	}
}

// deadPods are a hundred pods with ten dead instances each.
func deadPods() []*cri.Pod {
	var pods []*cri.Pod
	for p := range 100 {
		words := "s1=ready"
		for n := range 10 {
			words += fmt.Sprintf(" web/%d=exited@s1", 10-n)
		}
		pods = append(pods, podOf(fmt.Sprint("p", p), words))
	}
	return pods
}

func BenchmarkSelectThousandDead(b *testing.B) {
	pods := deadPods()
	b.ReportAllocs()
	for b.Loop() {
		if g := SelectContainers(pods, ContainerPolicy{MaxTotal: 500}, now); len(g.Pods) != 100 {
			b.Fatal(len(g.Pods))
		}
	}
}

// The issue asks for 10 ms. They are those of the processor: others may be at
// work on this machine.
func TestThousandDeadAreSelectedFast(t *testing.T) {
	pods := deadPods()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	best := time.Hour
	for rounds := 0; best > 10*time.Millisecond && rounds < 50; rounds++ {
		begin := spent()
		SelectContainers(pods, ContainerPolicy{MaxTotal: 500}, now)
		best = min(best, spent()-begin)
	}
	if best > 10*time.Millisecond {
		t.Errorf("1000 dead containers take %s", best)
	}
}

func TestSelectEnded(t *testing.T) {
	for name, c := range map[string]struct {
		pod  string
		as   RunState
		age  time.Duration
		want string
	}{
		"runs": {pod: "s1=ready web/1=exited@s1 web/0=exited@s1"},
		"ended for good": {pod: "s2=dead s1=dead web/1=exited@s2 web/0=exited@s1", as: RunEndedForGood,
			want: "p:s1 p:s2 p:web/0 p:web/1"},
		"to run again": {pod: "s2=dead s1=dead web/1=exited@s2 web/0=exited@s1", as: RunEndedWillRestart,
			want: "p:s1 p:web/0 p:web/1"},
		"what runs nevertheless": {pod: "s2=ready s1=dead web/1=running@s2 web/0=exited@s1", as: RunEndedForGood,
			want: "p:s1 p:web/0"},
		"what may run": {pod: "s1=dead web/1=unknown@s1 db/0=created@s1", as: RunEndedForGood},
		"what is young": {pod: "s1=dead web/9=exited@s1 web/0=exited@s1", as: RunEndedForGood, age: 2 * time.Hour,
			want: "p:web/0"},
	} {
		t.Run(name, func(t *testing.T) {
			var g Garbage
			if gone := SelectEnded(podOf("p", c.pod), c.as, ContainerPolicy{MinAge: c.age}, now); gone != nil {
				g.Pods = append(g.Pods, gone)
			}
			if got := ids(g); got != c.want {
				t.Errorf("goes %q, want %q", got, c.want)
			}
		})
	}
}
