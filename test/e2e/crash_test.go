package e2e

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The daemon is killed at random points while manifests are added, edited and removed. After
// each round exactly the wanted pods run, none twice, and untouched pods still have their
// processes.
func TestDaemonKilledAtRandom(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		const rounds, pods = 20, 4
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))

		n.writeManifest("steady.yaml", sleepPod("steady", "one"))
		n.start()
		steady := n.awaitRunning("steady")
		wanted := map[string]string{} // name to revision
		before := map[string]instance{}
		for round := range rounds {
			touched := map[string]bool{}
			for range 1 + random.IntN(2) {
				name := fmt.Sprintf("p%d", random.IntN(pods))
				touched[name] = true
				if _, there := wanted[name]; there && random.IntN(3) == 0 {
					n.removeManifest(name + ".yaml")
					delete(wanted, name)
				} else {
					wanted[name] = fmt.Sprint(round)
					n.writeManifest(name+".yaml", sleepPod(name, wanted[name]))
				}
			}
			// At any point between the detection of the manifest and the start of the pod.
			<-time.After(time.Duration(random.IntN(600)) * time.Millisecond)
			n.restart()
			if random.IntN(3) == 0 {
				<-time.After(time.Duration(random.IntN(100)) * time.Millisecond)
				n.restart() // while it still lists the running pods
			}
			for i := range pods {
				name := fmt.Sprintf("p%d", i)
				word, there := wanted[name]
				if !there {
					n.awaitGone(name)
					delete(before, name)
					continue
				}
				now := n.awaitRevision(name, word)
				if old, ok := before[name]; ok && !touched[name] && old != now {
					t.Fatalf("round %d: pod %s was not touched, but %+v became %+v", round, name, old, now)
				}
				before[name] = now
			}
			n.mustStillRun("steady", steady)
			n.awaitExactly(len(wanted) + 1)
		}
	})
}

// awaitRevision waits until exactly the revision with the word runs.
func (n *node) awaitRevision(name, word string) instance {
	n.t.Helper()
	var got instance
	n.await(fmt.Sprintf("revision %q of pod %q runs", word, name), func() error {
		found, err := n.running(name)
		if err != nil {
			return err
		}
		var ok bool
		if got, ok = found["main"]; !ok {
			return fmt.Errorf("running: %v", found)
		}
		has, err := n.rt.CRI.Exec(n.t.Context(), got.ID, "sh", "-c", "echo -n $WORD")
		if err == nil && has != word {
			err = fmt.Errorf("WORD is %q", has)
		}
		return err
	})
	return got
}

// awaitExactly waits until the node has exactly count ready sandboxes and running containers,
// with one sandbox per pod.
func (n *node) awaitExactly(count int) {
	n.t.Helper()
	n.await(fmt.Sprintf("%d sandboxes and containers, no more", count), func() error {
		sandboxes, err := n.rt.CRI.Sandboxes(n.t.Context(), "", "")
		if err != nil {
			return err
		}
		ready := map[string]int{}
		ids := map[string]bool{}
		for _, s := range sandboxes {
			if n.owns(s.Metadata.Name) && s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				ready[s.Metadata.Name]++
				ids[s.Id] = true
				if ready[s.Metadata.Name] > 1 {
					return fmt.Errorf("%s has %d sandboxes", s.Metadata.Name, ready[s.Metadata.Name])
				}
			}
		}
		containers, err := n.rt.CRI.Containers(n.t.Context(), "", "")
		if err != nil {
			return err
		}
		running := 0
		for _, c := range containers {
			if ids[c.PodSandboxId] && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
				running++
			}
		}
		if len(ready) != count || running != count {
			return fmt.Errorf("%d sandboxes, %d containers: %v", len(ready), running, ready)
		}
		return nil
	})
}

// A normal shutdown of the daemon stops no pod either.
func TestDaemonStopped(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.mustStillRun("p", first)
		n.removeManifest("p.yaml") // while the daemon is down
		n.writeManifest("q.yaml", sleepPod("q", "one"))
		n.start()
		n.awaitGone("p")
		n.awaitRunning("q")
	})
}

// An edit made while the daemon is down is applied when it starts.
func TestEditedWhileDaemonIsDown(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		n.awaitRevision("p", "one")
		n.Kill()
		n.writeManifest("p.yaml", sleepPod("p", "two"))
		n.start()
		n.awaitRevision("p", "two")
		n.awaitExactly(1)
	})
}

// Back-off and restart counts survive a restart of the daemon.
func TestRestartCountOutlivesDaemon(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		first := n.awaitRunning("p")
		n.awaitReady("p")
		if err := syscall.Kill(first.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		second := n.awaitOther("p", first)
		start := n.awaitReady("p").Status.StartTime
		n.restart()
		p := n.awaitReady("p")
		n.mustStillRun("p", second)
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
	onEachPrivateRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("stays.yaml", sleepPod("stays", "one"))
		n.writeManifest("dies.yaml", sleepPod("dies", "one"))
		n.writeManifest("changes.yaml", sleepPod("changes", "one"))
		n.start()
		stays, dies, changes := n.awaitRunning("stays"), n.awaitRunning("dies"), n.awaitRunning("changes")
		daemon := n.Pid()
		for range 3 {
			n.rt.Kill()
			if err := syscall.Kill(dies.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			n.writeManifest("changes.yaml", sleepPod("changes", fmt.Sprint("after ", changes.ID)))
			if err := n.rt.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			dies = n.awaitOther("dies", dies)
			changes = n.awaitOther("changes", changes)
			n.mustStillRun("stays", stays)
			n.awaitExactly(3)
		}
		if !processExists(daemon) || n.Pid() != daemon {
			t.Error("the daemon exited with the runtime")
		}
	})
}

// The daemon starts before the runtime, as at boot.
func TestRuntimeStartsLater(t *testing.T) {
	onEachPrivateRuntime(t, func(t *testing.T, n *node) {
		n.rt.Kill()
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.start()
		if err := n.rt.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.awaitRunning("p")
	})
}
