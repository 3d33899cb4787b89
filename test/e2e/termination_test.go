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

// cgroups returns the directories of a process's cgroups.
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
		t.Fatalf("found no cgroup of process %d: %s", pid, text)
	}
	return dirs
}

// mustBeTerminated fails the test if anything of a terminated pod but its logs is left on the
// host, or if it runs.
func (n *node) mustBeTerminated(p v1.Pod, name string, groups []string) {
	n.t.Helper()
	if found, err := n.running(name); err != nil || len(found) > 0 {
		n.t.Errorf("containers of %s still run: %v, %v", name, found, err)
	}
	n.await("volumes and cgroups are removed", func() error {
		for _, dir := range append(groups, filepath.Join(n.Root, "pods", string(p.UID), "volumes")) {
			if _, err := os.Stat(dir); err == nil {
				return fmt.Errorf("%s still exists", dir)
			}
		}
		return nil
	})
	log := filepath.Join(n.PodLogs, fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID), "main", "0.log")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "hello") {
		n.t.Errorf("the log of %s: %q, %v", name, text, err)
	}
}

// A pod terminates at its active deadline, across restarts of the daemon and while a hook
// hangs, and does not start again even if no container of it is left.
func TestActiveDeadline(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		script := "echo hello; " + exitOnTerm
		// Enough time for a busy machine to start them first.
		n.writeManifest("p.yaml", n.scriptedPod("p", 5, "  activeDeadlineSeconds: 12", scriptedContainer{"main", script, ""}))
		n.writeManifest("r.yaml", n.scriptedPod("r", 5, "  activeDeadlineSeconds: 15", scriptedContainer{"main", script, ""}))
		n.writeManifest("h.yaml", n.scriptedPod("h", 5, "  activeDeadlineSeconds: 12",
			scriptedContainer{"main", script, "lifecycle: {postStart: {exec: {command: [sleep, '4242']}}}"}))
		n.start()
		groups := cgroups(t, n.awaitRunning("p").Pid)
		boot := time.Now().Add(-time.Duration(uptime(t) * float64(time.Second)))
		// inTime checks when a pod got SIGTERM.
		inTime := func(p v1.Pod, name string, seconds int) {
			t.Helper()
			signaled := boot.Add(time.Duration(n.awaitRecorded(name+"-main-term") * float64(time.Second)))
			late := signaled.Sub(p.Status.StartTime.Add(time.Duration(seconds) * time.Second))
			t.Logf("%s got SIGTERM %s after its deadline", name, late.Round(time.Millisecond))
			// A busy machine may be late, but not by the sync period of a minute.
			if late < -50*time.Millisecond || late > 20*time.Second {
				t.Errorf("%s got SIGTERM %s after its deadline", name, late)
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

// A terminated pod is not started again after its dead containers were removed manually and
// the daemon was restarted.
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
		// One pod was still running when the daemon was killed and then all its containers
		// were removed.
		for _, name := range []string{"done", "failed", "killed"} {
			all, err := n.sandboxes(name)
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: %d sandboxes, %v", name, len(all), err)
			}
			for _, s := range all {
				// The runtime may still work on a request of the daemon.
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
				t.Errorf("%s was started again", name)
			}
		}
	})
}

// A container that ignores SIGTERM is killed when its grace period is over, and not earlier.
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
					return errors.New("it still runs")
				}
				return nil
			})
		}
		n.awaitGone("p")
		n.awaitGone("q")
		// 2 s is the minimum.
		for name, grace := range map[string]float64{"p": 3, "q": 2} {
			term, alive := n.awaitRecorded(name+"-main-term"), n.awaitRecorded(name+"-main-alive")
			if had := alive - term; had < grace-0.5 || had > grace+1.5 {
				t.Errorf("%s was killed %.2f s after SIGTERM, want %.0f", name, had, grace)
			}
		}
		if quick, slow := n.awaitRecorded("p-quick-term"), n.awaitRecorded("p-main-term"); quick > slow+1 {
			t.Errorf("one container got SIGTERM %.2f s after the other", quick-slow)
		}
	})
}

// Sidecars run until the regular containers have terminated and then terminate in reverse
// order. Their preStop hooks run at the start of the termination. The order is the same
// without a manifest, when it is known only from the containers.
func TestSidecarsTerminateLast(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		// The main container ends after what must happen at the start of the termination.
		// If that did not happen, it would be killed and would not record its end.
		const awaitOthers = "until [ -e /out/${ME%-main}-first-hook ] && [ -e /out/${ME%-main}-other-term ]; do sleep 0.05; done"
		manifest := func(name string) string {
			return n.scriptedPod(name, 30, "",
				scriptedContainer{"first", exitOnTerm, "restartPolicy: Always\nlifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; note hook']}}}"},
				scriptedContainer{"second", "trap 'note term; sleep 0.5; exit 0' TERM; note start; while true; do sleep 0.05; done", "restartPolicy: Always"},
				scriptedContainer{"main", "trap 'note term; " + awaitOthers + "; note ended; exit 0' TERM; note start; while true; do sleep 0.05; done", ""},
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
