package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// cgroups are the directories of a process's cgroups.
func cgroups(t *testing.T, pid int) []string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
			dir := filepath.Join(root, strings.TrimPrefix(parts[1], "name="), parts[2])
			if _, err := os.Stat(dir); err == nil && parts[2] != "/" {
				dirs = append(dirs, dir)
			}
		}
	}
	if len(dirs) == 0 {
		t.Fatalf("no cgroup of %d is to be seen: %s", pid, text)
	}
	return dirs
}

// mustBeOver asserts that nothing of a pod that has ended is left on the host
// but its logs, and that it does not run.
func (n *node) mustBeTerminated(p v1.Pod, name string, groups []string) {
	n.t.Helper()
	if found, err := n.running(name); err != nil || len(found) > 0 {
		n.t.Errorf("of %s there run %v, %v", name, found, err)
	}
	n.await("volumes and cgroups are gone", func() error {
		for _, dir := range append(groups, filepath.Join(n.Root, "pods", string(p.UID), "volumes")) {
			if _, err := os.Stat(dir); err == nil {
				return fmt.Errorf("%s is there", dir)
			}
		}
		return nil
	})
	log := filepath.Join(n.PodLogs, fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID), "main", "0.log")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "hello") {
		n.t.Errorf("the log of %s: %q, %v", name, text, err)
	}
}

// A pod ends when its deadline has come, over restarts of the daemon and while
// a hook hangs, and does not run again although nothing of it is left.
func TestActiveDeadline(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		script := "echo hello; " + exitOnTerm
		// Enough for a busy machine to start them before.
		n.writeManifest("p.yaml", n.scriptedPod("p", 5, "  activeDeadlineSeconds: 12", scriptedContainer{"main", script, ""}))
		n.writeManifest("r.yaml", n.scriptedPod("r", 5, "  activeDeadlineSeconds: 15", scriptedContainer{"main", script, ""}))
		n.writeManifest("h.yaml", n.scriptedPod("h", 5, "  activeDeadlineSeconds: 12",
			scriptedContainer{"main", script, "lifecycle: {postStart: {exec: {command: [sleep, '4242']}}}"}))
		n.start()
		groups := cgroups(t, n.awaitRunning("p").Pid)
		boot := time.Now().Add(-time.Duration(uptime(t) * float64(time.Second)))
		// inTime asserts when a pod was asked to end.
		inTime := func(p v1.Pod, name string, seconds int) {
			t.Helper()
			asked := boot.Add(time.Duration(n.awaitRecorded(name+"-main-term") * float64(time.Second)))
			late := asked.Sub(p.Status.StartTime.Add(time.Duration(seconds) * time.Second))
			t.Logf("%s was asked to end %s after its deadline", name, late.Round(time.Millisecond))
			// A busy machine may be late, but not by a minute's sync.
			if late < -50*time.Millisecond || late > 20*time.Second {
				t.Errorf("%s was asked to end %s after its deadline", name, late)
			}
			if p.Status.Reason != "DeadlineExceeded" || p.Status.Message != "Pod was active on the node longer than the specified deadline" {
				t.Errorf("status of %s is %s: %s", name, p.Status.Reason, p.Status.Message)
			}
		}
		started := n.awaitReady("r").Status.StartTime
		inTime(n.awaitPhase("p", v1.PodFailed), "p", 12)
		inTime(n.awaitPhase("h", v1.PodFailed), "h", 12)
		n.awaitEvent("p", "DeadlineExceeded")
		n.restart()
		r := n.awaitPhase("r", v1.PodFailed)
		inTime(r, "r", 15)
		if !r.Status.StartTime.Equal(started) {
			t.Errorf("start time went from %s to %s", started, r.Status.StartTime)
		}
		n.awaitGone("r")
		n.mustBeTerminated(n.awaitPhase("p", v1.PodFailed), "p", groups)
	})
}

// What has ended stays ended when its dead containers were removed by hand and
// the daemon restarts.
func TestTerminatedPodsStayTerminated(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		for name, c := range map[string]struct{ policy, script string }{
			"done": {"OnFailure", "echo hello; note start; exit 0"}, "failed": {"Never", "echo hello; note start; exit 4"},
			"killed": {"Never", "echo hello; " + exitOnTerm},
		} {
			n.writeManifest(name+".yaml", n.scriptedPod(name, 2, "  restartPolicy: "+c.policy, scriptedContainer{"main", c.script, ""}))
		}
		n.start()
		n.awaitRecorded("killed-main-start")
		n.awaitReady("killed")
		n.awaitPhase("done", v1.PodSucceeded)
		n.awaitPhase("failed", v1.PodFailed)
		n.Kill()
		// One was still running when the daemon and then everything was lost.
		for _, name := range []string{"done", "failed", "killed"} {
			all, err := n.sandboxes(name)
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: %d sandboxes, %v", name, len(all), err)
			}
			for _, s := range all {
				// The runtime may still be at what the daemon asked of it.
				n.await(name+" is removed", func() error { return n.rt.CRI.RemovePod(t.Context(), s.Id) })
			}
			if err := os.Remove(filepath.Join(n.outDir(), name+"-main-start")); err != nil {
				t.Fatal(err)
			}
		}
		n.writeManifest("probe.yaml", sleepPod("probe", "one"))
		n.start()
		n.awaitRunning("probe")
		for name, phase := range map[string]v1.PodPhase{"done": v1.PodSucceeded, "failed": v1.PodFailed, "killed": v1.PodFailed} {
			p := n.awaitPhase(name, phase)
			n.mustBeTerminated(p, name, nil)
			if _, again := n.recordedAt(name + "-main-start"); again {
				t.Errorf("%s ran again", name)
			}
		}
	})
}

// A container that does not end when asked to is killed when its grace is over,
// and not before.
func TestGracePeriod(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		deaf := "trap 'note term' TERM; note start; while true; do note alive; sleep 0.1; done"
		n.writeManifest("p.yaml", n.scriptedPod("p", 3, "", scriptedContainer{"main", deaf, ""}, scriptedContainer{"quick", exitOnTerm, ""}))
		n.writeManifest("q.yaml", n.scriptedPod("q", 0, "", scriptedContainer{"main", deaf, ""}))
		n.start()
		n.awaitRecorded("p-main-start")
		n.awaitRecorded("p-quick-start")
		main, q := n.awaitRunning("p"), n.awaitRunning("q")
		n.awaitRecorded("q-main-start")
		n.removeManifest("p.yaml")
		n.removeManifest("q.yaml")
		for pid, name := range map[int]string{main.Pid: "p", q.Pid: "q"} {
			n.await(name+" is dead", func() error {
				if err := syscall.Kill(pid, 0); err == nil && processExists(pid) {
					return errors.New("it is alive")
				}
				return nil
			})
		}
		n.awaitGone("p")
		n.awaitGone("q")
		// 2 s are the least that there are.
		for name, grace := range map[string]float64{"p": 3, "q": 2} {
			term, alive := n.awaitRecorded(name+"-main-term"), n.awaitRecorded(name+"-main-alive")
			if had := alive - term; had < grace-0.5 || had > grace+1.5 {
				t.Errorf("%s had %.2f s from the signal to its end, want %.0f", name, had, grace)
			}
		}
		if quick, slow := n.awaitRecorded("p-quick-term"), n.awaitRecorded("p-main-term"); quick > slow+1 {
			t.Errorf("one container was asked to end %.2f s after the other", quick-slow)
		}
	})
}

// Sidecars go on until the regular containers have ended, and then end in
// reverse order; their hooks come at the start. It is the same without a
// manifest, when the containers alone tell.
func TestSidecarsTerminateLast(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		manifest := func(name string) string {
			return n.scriptedPod(name, 10, "",
				scriptedContainer{"first", exitOnTerm, "restartPolicy: Always\nlifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; note hook']}}}"},
				scriptedContainer{"second", "trap 'note term; sleep 0.5; exit 0' TERM; note start; while true; do sleep 0.05; done", "restartPolicy: Always"},
				scriptedContainer{"main", "trap 'note term; sleep 1; note ended; exit 0' TERM; note start; while true; do sleep 0.05; done", ""},
				scriptedContainer{"other", exitOnTerm, ""},
			)
		}
		n.writeManifest("p.yaml", manifest("p"))
		n.writeManifest("o.yaml", manifest("o"))
		n.start()
		for _, name := range []string{"p", "o"} {
			n.awaitRecorded(name + "-main-start")
			n.awaitRecorded(name + "-other-start")
		}
		n.removeManifest("p.yaml")
		n.awaitGone("p")
		n.Kill()
		n.removeManifest("o.yaml")
		n.start()
		n.awaitGone("o")
		for _, name := range []string{"p", "o"} {
			n.mustBeInOrder(0, name+"-main-term", name+"-main-ended", name+"-second-term", name+"-first-term")
			n.mustBeInOrder(0.5, name+"-second-term", name+"-first-term")
			n.mustBeInOrder(0, name+"-first-hook", name+"-main-ended")
			n.mustBeInOrder(0, name+"-other-term", name+"-main-ended")
		}
	})
}
