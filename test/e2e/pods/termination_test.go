package pods

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

	"github.com/podstead/podstead/test/e2e/harness"
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
func mustBeTerminated(n *harness.Node, p v1.Pod, name string, groups []string) {
	n.T.Helper()
	if found, err := n.Running(name); err != nil || len(found) > 0 {
		n.T.Errorf("containers of %s still run: %v, %v", name, found, err)
	}
	n.Await("volumes and cgroups are removed", func() error {
		for _, dir := range append(groups, filepath.Join(n.Root, "pods", string(p.UID), "volumes")) {
			if _, err := os.Stat(dir); err == nil {
				return fmt.Errorf("%s still exists", dir)
			}
		}
		return nil
	})
	log := filepath.Join(n.PodLogs, fmt.Sprintf("%s_%s_%s", p.Namespace, p.Name, p.UID), "main", "0.log")
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "hello") {
		n.T.Errorf("the log of %s: %q, %v", name, text, err)
	}
}

// A pod terminates at its active deadline, across restarts of the daemon and while a hook
// hangs, and does not start again even if no container of it is left.
func TestActiveDeadline(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		// A busy machine needs more time to start them before their deadline, and may stall.
		for _, seconds := range []int{12, 60, 240} {
			if checkActiveDeadline(n, seconds) {
				return
			}
		}
		t.Error("no pod terminated at its deadline")
	})
}

// checkActiveDeadline starts pods with an active deadline. It returns false if one had not started
// by then, or if SIGTERM came late. The unit tests show that the deadline itself is on time.
func checkActiveDeadline(n *harness.Node, seconds int) bool {
	t := n.T
	t.Helper()
	script := "echo hello; " + exitOnTerm
	p, r, h := fmt.Sprint("p", seconds), fmt.Sprint("r", seconds), fmt.Sprint("h", seconds)
	n.WriteManifest(p+".yaml", n.ScriptedPod(p, 60, fmt.Sprint("  activeDeadlineSeconds: ", seconds),
		harness.ScriptedContainer{Name: "main", Script: script, Fields: ""}))
	n.WriteManifest(r+".yaml", n.ScriptedPod(r, 60, fmt.Sprint("  activeDeadlineSeconds: ", seconds+3),
		harness.ScriptedContainer{Name: "main", Script: script, Fields: ""}))
	n.WriteManifest(h+".yaml", n.ScriptedPod(h, 60, fmt.Sprint("  activeDeadlineSeconds: ", seconds),
		harness.ScriptedContainer{Name: "main", Script: script,
			Fields: "lifecycle: {postStart: {exec: {command: [sleep, '4242']}}}"}))
	var groups []string
	n.Await("the first pod runs, or its deadline is over", func() error {
		if found, err := n.Running(p); err == nil && found["main"].Pid != 0 {
			groups = cgroups(t, found["main"].Pid)
			return nil
		}
		if pod, err := n.Pod(p); err != nil || pod.Status.Phase != v1.PodFailed {
			return fmt.Errorf("%s, %v", pod.Status.Phase, err)
		}
		return nil
	})
	// inTime checks when a pod got SIGTERM.
	boot, inTime := harness.BootTime(t), true
	check := func(name string, seconds int) v1.Pod {
		t.Helper()
		pod := n.AwaitPhase(name, v1.PodFailed)
		if pod.Status.Reason != "DeadlineExceeded" ||
			pod.Status.Message != "Pod was active on the node longer than the specified deadline" {
			t.Errorf("status of %s is %s: %s", name, pod.Status.Reason, pod.Status.Message)
		}
		if _, started := n.RecordedAt(name + "-main-start"); !started {
			t.Logf("%s had not started at its deadline", name)
			inTime = false
			return pod
		}
		n.AwaitGone(name)
		term, ended := n.RecordedAt(name + "-main-term")
		if !ended {
			t.Logf("%s started just before its deadline", name)
			inTime = false
			return pod
		}
		late := boot.Add(time.Duration(term * float64(time.Second))).Sub(
			pod.Status.StartTime.Add(time.Duration(seconds) * time.Second))
		t.Logf("%s got SIGTERM %s after its deadline", name, late.Round(time.Millisecond))
		if late < -50*time.Millisecond {
			t.Errorf("%s got SIGTERM %s before its deadline", name, -late)
		}
		inTime = inTime && late < 20*time.Second
		return pod
	}
	var started *metav1.Time
	n.AwaitStatus(r, "it has a start time", func(p v1.Pod) error {
		if started = p.Status.StartTime; started == nil {
			return errors.New("none yet")
		}
		return nil
	})
	check(p, seconds)
	check(h, seconds)
	n.AwaitEvent(p, "DeadlineExceeded")
	n.Restart()
	ended := check(r, seconds+3)
	if !ended.Status.StartTime.Equal(started) {
		t.Errorf("start time went from %s to %s", started, ended.Status.StartTime)
	}
	if !inTime {
		return false
	}
	n.AwaitGone(r)
	mustBeTerminated(n, n.AwaitPhase(p, v1.PodFailed), p, groups)
	return true
}

// A terminated pod is not started again after its dead containers were removed manually and
// the daemon was restarted.
func TestTerminatedPodsStayTerminated(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		for name, c := range map[string]struct{ policy, script string }{
			"done": {"OnFailure", "echo hello; note start; exit 0"}, "failed": {"Never", "echo hello; note start; exit 4"},
			"killed": {"Never", "echo hello; " + exitOnTerm},
		} {
			n.WriteManifest(name+".yaml", n.ScriptedPod(name, 60, "  restartPolicy: "+c.policy,
				harness.ScriptedContainer{Name: "main", Script: c.script, Fields: ""}))
		}
		n.MustStart()
		n.AwaitRecorded("killed-main-start")
		n.AwaitReady("killed")
		n.AwaitPhase("done", v1.PodSucceeded)
		n.AwaitPhase("failed", v1.PodFailed)
		n.Kill()
		// One pod was still running when the daemon was killed and then all its containers
		// were removed.
		for _, name := range []string{"done", "failed", "killed"} {
			all, err := n.Sandboxes(name)
			if err != nil || len(all) == 0 {
				t.Fatalf("%s: %d sandboxes, %v", name, len(all), err)
			}
			for _, s := range all {
				// The runtime may still work on a request of the daemon.
				n.Await(name+" is removed", func() error { return n.Runtime.CRI.RemovePod(t.Context(), s.Id) })
			}
			if err := os.Remove(filepath.Join(n.OutDir(), name+"-main-start")); err != nil {
				t.Fatal(err)
			}
		}
		n.WriteManifest("probe.yaml", harness.SleepPod("probe", "one"))
		n.MustStart()
		n.AwaitRunning("probe")
		for name, phase := range map[string]v1.PodPhase{"done": v1.PodSucceeded, "failed": v1.PodFailed,
			"killed": v1.PodFailed} {
			p := n.AwaitPhase(name, phase)
			mustBeTerminated(n, p, name, nil)
			if _, again := n.RecordedAt(name + "-main-start"); again {
				t.Errorf("%s was started again", name)
			}
		}
	})
}

// A container that ignores SIGTERM is killed when its grace period is over, and not earlier.
func TestGracePeriod(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		// On a busy machine the runtime may be late.
		for attempt := range 5 {
			if checkGracePeriod(n, attempt) {
				return
			}
		}
		t.Error("the containers were always killed late")
	})
}

// checkGracePeriod fails the test if containers are killed before their grace period is over, and
// returns false if they are killed long after it.
func checkGracePeriod(n *harness.Node, attempt int) bool {
	t := n.T
	t.Helper()
	const deaf = "trap 'note term' TERM; note start; while true; do note alive; sleep 0.1; done"
	p, q := fmt.Sprint("p", attempt), fmt.Sprint("q", attempt)
	n.WriteManifest(p+".yaml", n.ScriptedPod(p, 3, "", harness.ScriptedContainer{Name: "main", Script: deaf, Fields: ""},
		harness.ScriptedContainer{Name: "quick", Script: exitOnTerm, Fields: ""}))
	n.WriteManifest(q+".yaml", n.ScriptedPod(q, 0, "", harness.ScriptedContainer{Name: "main", Script: deaf, Fields: ""}))
	for _, container := range []string{p + "-main", p + "-quick", q + "-main"} {
		n.AwaitRecorded(container + "-start")
	}
	pids := map[string]int{p: n.AwaitRunning(p).Pid, q: n.AwaitRunning(q).Pid}
	begun := harness.Uptime(t)
	n.RemoveManifest(p + ".yaml")
	n.RemoveManifest(q + ".yaml")
	died := map[string]float64{}
	n.Await("both are dead", func() error {
		for name, pid := range pids {
			if died[name] == 0 && !harness.ProcessExists(pid) {
				died[name] = harness.Uptime(t)
			}
		}
		if len(died) < 2 || died[p] == 0 || died[q] == 0 {
			return fmt.Errorf("dead are %v", died)
		}
		return nil
	})
	n.AwaitGone(p)
	n.AwaitGone(q)
	soon := true
	// 2 s is the minimum.
	for name, grace := range map[string]float64{p: 3, q: 2} {
		had := died[name] - begun
		t.Logf("%s was killed %.2f s after its removal, with a grace period of %.0f s", name, had, grace)
		if had < grace {
			t.Errorf("%s was killed %.2f s after its removal, want %.0f at least", name, had, grace)
		}
		// The default would be 30 s.
		if _, ok := n.RecordedAt(name + "-main-term"); !ok || had > grace+15 {
			soon = false
		}
	}
	// The containers of a pod terminate at the same time.
	quick, ok := n.RecordedAt(p + "-quick-term")
	return soon && ok && quick < died[p]
}

// Sidecars run until the regular containers have terminated and then terminate in reverse
// order. Their preStop hooks run at the start of the termination. The order is the same
// without a manifest, when it is known only from the containers.
func TestSidecarsTerminateLast(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		// The main container ends after what must happen at the start of the termination.
		// If that did not happen, it would be killed and would not record its end.
		const awaitOthers = "until [ -s /out/${ME%-main}-first-hook ] && [ -s /out/${ME%-main}-other-term ]; do sleep " +
			"0.05; done"
		manifest := func(name string) string {
			return n.ScriptedPod(name, 600, "",
				harness.ScriptedContainer{Name: "first", Script: exitOnTerm,
					Fields: "restartPolicy: Always\nlifecycle: {preStop: {exec: {command: [sh, -c, '. /out/lib; note hook']}}}"},
				harness.ScriptedContainer{Name: "second",
					Script: "trap 'note term; sleep 0.5; exit 0' TERM; note start; while true; do sleep 0.05; done",
					Fields: "restartPolicy: Always"},
				harness.ScriptedContainer{Name: "main",
					Script: "trap 'note term; " + awaitOthers +
						"; note ended; exit 0' TERM; note start; while true; do sleep 0.05; done", Fields: ""},
				harness.ScriptedContainer{Name: "other", Script: exitOnTerm, Fields: ""},
			)
		}
		n.WriteManifest("p.yaml", manifest("p"))
		n.WriteManifest("o.yaml", manifest("o"))
		n.MustStart()
		for _, name := range []string{"p", "o"} {
			n.AwaitRecorded(name + "-main-start")
			n.AwaitRecorded(name + "-other-start")
		}
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		n.Kill()
		n.RemoveManifest("o.yaml")
		n.MustStart()
		n.AwaitGone("o")
		for _, name := range []string{"p", "o"} {
			mustBeInOrder(n, 0, name+"-main-term", name+"-main-ended", name+"-second-term", name+"-first-term")
			mustBeInOrder(n, 0.5, name+"-second-term", name+"-first-term")
			mustBeInOrder(n, 0, name+"-first-hook", name+"-main-ended")
			mustBeInOrder(n, 0, name+"-other-term", name+"-main-ended")
		}
	})
}
