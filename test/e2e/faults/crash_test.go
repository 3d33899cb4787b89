package faults

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
)

// The daemon is killed at random points while manifests are added, edited and removed. After
// each round exactly the desired pods run, none twice, and untouched pods still have their
// processes.
func TestDaemonKilledAtRandom(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const rounds, pods = 20, 4
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))

		n.WriteManifest("steady.yaml", harness.SleepPod("steady", "one"))
		n.MustStart()
		steady := n.AwaitRunning("steady")
		desired := map[string]string{} // name to revision
		before := map[string]harness.Instance{}
		for round := range rounds {
			touched := map[string]bool{}
			for range 1 + random.IntN(2) {
				name := fmt.Sprintf("p%d", random.IntN(pods))
				touched[name] = true
				if _, there := desired[name]; there && random.IntN(3) == 0 {
					n.RemoveManifest(name + ".yaml")
					delete(desired, name)
				} else {
					desired[name] = fmt.Sprint(round)
					n.WriteManifest(name+".yaml", harness.SleepPod(name, desired[name]))
				}
			}
			// At any point between the detection of the manifest and the start of the pod.
			<-time.After(time.Duration(random.IntN(600)) * time.Millisecond)
			n.Restart()
			if random.IntN(3) == 0 {
				<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
				n.Restart() // while it still lists the running pods
			}
			for i := range pods {
				name := fmt.Sprintf("p%d", i)
				word, there := desired[name]
				if !there {
					n.AwaitGone(name)
					delete(before, name)
					continue
				}
				now := n.AwaitRevision(name, word)
				if old, ok := before[name]; ok && !touched[name] && old != now {
					t.Fatalf("round %d: pod %s was not touched, but %+v became %+v", round, name, old, now)
				}
				before[name] = now
			}
			n.MustStillRun("steady", steady)
			n.AwaitExactly(len(desired) + 1)
		}
	})
}

// A normal shutdown of the daemon stops no pod either.
func TestDaemonStopped(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.MustStillRun("p", first)
		n.RemoveManifest("p.yaml") // while the daemon is down
		n.WriteManifest("q.yaml", harness.SleepPod("q", "one"))
		n.MustStart()
		n.AwaitGone("p")
		n.AwaitRunning("q")
	})
}

// An edit made while the daemon is down is applied when it starts.
func TestEditedWhileDaemonIsDown(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		n.AwaitRevision("p", "one")
		n.Kill()
		n.WriteManifest("p.yaml", harness.SleepPod("p", "two"))
		n.MustStart()
		n.AwaitRevision("p", "two")
		n.AwaitExactly(1)
	})
}

// Back-off and restart counts survive a restart of the daemon.
func TestRestartCountOutlivesDaemon(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		second := n.AwaitOther("p", first)
		start := n.AwaitReady("p").Status.StartTime
		n.Restart()
		p := n.AwaitReady("p")
		n.MustStillRun("p", second)
		if got := p.Status.ContainerStatuses[0].RestartCount; got != 1 {
			t.Errorf("restart count is %d after the daemon's restart, want 1", got)
		}
		if !p.Status.StartTime.Equal(start) {
			t.Errorf("start time went from %v to %v", start, p.Status.StartTime)
		}
	})
}

// The runtime dies and returns: the containers and the daemon keep running, and the daemon
// then repairs what died or changed meanwhile.
func TestRuntimeKilled(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("stays.yaml", harness.SleepPod("stays", "one"))
		n.WriteManifest("dies.yaml", harness.SleepPod("dies", "one"))
		n.WriteManifest("changes.yaml", harness.SleepPod("changes", "one"))
		n.MustStart()
		stays, dies, changes := n.AwaitRunning("stays"), n.AwaitRunning("dies"), n.AwaitRunning("changes")
		daemon := n.Pid()
		for range 3 {
			n.Runtime.Kill()
			if err := syscall.Kill(dies.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			n.WriteManifest("changes.yaml", harness.SleepPod("changes", fmt.Sprint("after ", changes.ID)))
			if err := n.Runtime.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			dies = n.AwaitOther("dies", dies)
			changes = n.AwaitOther("changes", changes)
			n.MustStillRun("stays", stays)
			n.AwaitExactly(3)
		}
		if !harness.ProcessExists(daemon) || n.Pid() != daemon {
			t.Error("the daemon exited with the runtime")
		}
	})
}

// The daemon starts before the runtime, as at boot.
func TestRuntimeStartsLater(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Runtime.Kill()
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		if err := n.Runtime.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.AwaitRunning("p")
	})
}
