package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		n.start()
		// A busy machine needs more time to start them before their deadline, and may stall.
		for _, seconds := range []int{12, 60, 240} {
			if n.checkActiveDeadline(seconds) {
				return
			}
		}
		t.Error("no pod terminated at its deadline")
	})
}

// checkActiveDeadline starts pods with an active deadline. It returns false if one had not started
// by then, or if SIGTERM came late. The unit tests show that the deadline itself is on time.
func (n *node) checkActiveDeadline(seconds int) bool {
	t := n.t
	t.Helper()
	script := "echo hello; " + exitOnTerm
	p, r, h := fmt.Sprint("p", seconds), fmt.Sprint("r", seconds), fmt.Sprint("h", seconds)
	n.writeManifest(p+".yaml", n.scriptedPod(p, 60, fmt.Sprint("  activeDeadlineSeconds: ", seconds), scriptedContainer{"main", script, ""}))
	n.writeManifest(r+".yaml", n.scriptedPod(r, 60, fmt.Sprint("  activeDeadlineSeconds: ", seconds+3), scriptedContainer{"main", script, ""}))
	n.writeManifest(h+".yaml", n.scriptedPod(h, 60, fmt.Sprint("  activeDeadlineSeconds: ", seconds),
		scriptedContainer{"main", script, "lifecycle: {postStart: {exec: {command: [sleep, '4242']}}}"}))
	var groups []string
	n.await("the first pod runs, or its deadline is over", func() error {
		if found, err := n.running(p); err == nil && found["main"].Pid != 0 {
			groups = cgroups(t, found["main"].Pid)
			return nil
		}
		if pod, err := n.pod(p); err != nil || pod.Status.Phase != v1.PodFailed {
			return fmt.Errorf("%s, %v", pod.Status.Phase, err)
		}
		return nil
	})
	// inTime checks when a pod got SIGTERM.
	boot, inTime := bootTime(t), true
	check := func(name string, seconds int) v1.Pod {
		t.Helper()
		pod := n.awaitPhase(name, v1.PodFailed)
		if pod.Status.Reason != "DeadlineExceeded" || pod.Status.Message != "Pod was active on the node longer than the specified deadline" {
			t.Errorf("status of %s is %s: %s", name, pod.Status.Reason, pod.Status.Message)
		}
		if _, started := n.recordedAt(name + "-main-start"); !started {
			t.Logf("%s had not started at its deadline", name)
			inTime = false
			return pod
		}
		n.awaitGone(name)
		term, ended := n.recordedAt(name + "-main-term")
		if !ended {
			t.Logf("%s started just before its deadline", name)
			inTime = false
			return pod
		}
		late := boot.Add(time.Duration(term * float64(time.Second))).Sub(pod.Status.StartTime.Add(time.Duration(seconds) * time.Second))
		t.Logf("%s got SIGTERM %s after its deadline", name, late.Round(time.Millisecond))
		if late < -50*time.Millisecond {
			t.Errorf("%s got SIGTERM %s before its deadline", name, -late)
		}
		inTime = inTime && late < 20*time.Second
		return pod
	}
	var started *metav1.Time
	n.awaitStatus(r, "it has a start time", func(p v1.Pod) error {
		if started = p.Status.StartTime; started == nil {
			return errors.New("none yet")
		}
		return nil
	})
	check(p, seconds)
	check(h, seconds)
	n.awaitEvent(p, "DeadlineExceeded")
	n.restart()
	ended := check(r, seconds+3)
	if !ended.Status.StartTime.Equal(started) {
		t.Errorf("start time went from %s to %s", started, ended.Status.StartTime)
	}
	if !inTime {
		return false
	}
	n.awaitGone(r)
	n.mustBeTerminated(n.awaitPhase(p, v1.PodFailed), p, groups)
	return true
}

// bootTime returns when /proc/uptime was zero.
func bootTime(t *testing.T) time.Time {
	t.Helper()
	for {
		before := time.Now()
		up := uptime(t)
		if time.Since(before) < 10*time.Millisecond {
			return before.Add(-time.Duration(up * float64(time.Second)))
		}
	}
}

// A terminated pod is not started again after its dead containers were removed manually and
// the daemon was restarted.
func TestTerminatedPodsStayTerminated(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		for name, c := range map[string]struct{ policy, script string }{
			"done": {"OnFailure", "echo hello; note start; exit 0"}, "failed": {"Never", "echo hello; note start; exit 4"},
			"killed": {"Never", "echo hello; " + exitOnTerm},
		} {
			n.writeManifest(name+".yaml", n.scriptedPod(name, 60, "  restartPolicy: "+c.policy, scriptedContainer{"main", c.script, ""}))
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
		n.start()
		// On a busy machine the runtime may be late.
		for attempt := range 5 {
			if n.checkGracePeriod(attempt) {
				return
			}
		}
		t.Error("the containers were always killed late")
	})
}

// checkGracePeriod fails the test if containers are killed before their grace period is over, and
// returns false if they are killed long after it.
func (n *node) checkGracePeriod(attempt int) bool {
	t := n.t
	t.Helper()
	const deaf = "trap 'note term' TERM; note start; while true; do note alive; sleep 0.1; done"
	p, q := fmt.Sprint("p", attempt), fmt.Sprint("q", attempt)
	n.writeManifest(p+".yaml", n.scriptedPod(p, 3, "", scriptedContainer{"main", deaf, ""}, scriptedContainer{"quick", exitOnTerm, ""}))
	n.writeManifest(q+".yaml", n.scriptedPod(q, 0, "", scriptedContainer{"main", deaf, ""}))
	for _, container := range []string{p + "-main", p + "-quick", q + "-main"} {
		n.awaitRecorded(container + "-start")
	}
	pids := map[string]int{p: n.awaitRunning(p).Pid, q: n.awaitRunning(q).Pid}
	begun := uptime(t)
	n.removeManifest(p + ".yaml")
	n.removeManifest(q + ".yaml")
	died := map[string]float64{}
	n.await("both are dead", func() error {
		for name, pid := range pids {
			if died[name] == 0 && !processExists(pid) {
				died[name] = uptime(t)
			}
		}
		if len(died) < 2 || died[p] == 0 || died[q] == 0 {
			return fmt.Errorf("dead are %v", died)
		}
		return nil
	})
	n.awaitGone(p)
	n.awaitGone(q)
	soon := true
	// 2 s is the minimum.
	for name, grace := range map[string]float64{p: 3, q: 2} {
		had := died[name] - begun
		t.Logf("%s was killed %.2f s after its removal, with a grace period of %.0f s", name, had, grace)
		if had < grace {
			t.Errorf("%s was killed %.2f s after its removal, want %.0f at least", name, had, grace)
		}
		// The default would be 30 s.
		if _, ok := n.recordedAt(name + "-main-term"); !ok || had > grace+15 {
			soon = false
		}
	}
	// The containers of a pod terminate at the same time.
	quick, ok := n.recordedAt(p + "-quick-term")
	return soon && ok && quick < died[p]
}

// Sidecars run until the regular containers have terminated and then terminate in reverse
// order. Their preStop hooks run at the start of the termination. The order is the same
// without a manifest, when it is known only from the containers.
func TestSidecarsTerminateLast(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		// The main container ends after what must happen at the start of the termination.
		// If that did not happen, it would be killed and would not record its end.
		const awaitOthers = "until [ -s /out/${ME%-main}-first-hook ] && [ -s /out/${ME%-main}-other-term ]; do sleep 0.05; done"
		manifest := func(name string) string {
			return n.scriptedPod(name, 600, "",
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
