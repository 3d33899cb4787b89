package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/cpus"
)

// allowedCPUs returns the CPUs on which the kernel lets a process run, and those of its cgroup.
func allowedCPUs(pid int) (process, group string, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(data)) {
		if text, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			process = strings.TrimSpace(text)
		}
	}
	path, err := cgroupPath(pid, "cpuset")
	if err != nil {
		return "", "", err
	}
	group, err = cgroupValue("cpuset", path, "cpuset.cpus")
	return process, group, err
}

// With the CPU manager's policy static a container of a Guaranteed pod has CPUs of its own, and
// no quota; the others run on the rest, also those that ran before, without a restart. The
// assignment survives the daemon, is not resized, and its end returns the CPU to the others. The
// policy cannot be changed meanwhile.
func TestExclusiveCPUs(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("cpu", "cpuset") {
			return
		}
		data, err := os.ReadFile("/sys/devices/system/cpu/online")
		if err != nil {
			t.Fatal(err)
		}
		all, err := cpus.ParseSet(string(data))
		if err != nil || len(all) < 2 {
			t.Fatalf("this test needs two CPUs: %s (%v)", all, err)
		}
		before := n.Args
		n.Args = append(n.Args, "--cpu-manager-policy=static", "--reserved-cpus=0")
		guaranteed := func(cpu string) string {
			return sleepPod("own", "one") + resources("limits: {cpu: "+cpu+", memory: 40Mi}")
		}
		n.writeManifest("shared.yaml", sleepPod("shared", "one"))
		n.start()
		shared := n.awaitRunning("shared")
		runsOn := func(i instance, want cpus.Set) {
			t.Helper()
			n.await(fmt.Sprintf("the kernel has CPUs %s", want), func() error {
				process, group, err := allowedCPUs(i.Pid)
				if err == nil && (process != want.String() || group != want.String()) {
					err = fmt.Errorf("the process may run on %s, and its cgroup on %s", process, group)
				}
				return err
			})
		}
		runsOn(shared, all)
		n.writeManifest("own.yaml", guaranteed("1"))
		own := n.awaitRunning("own")
		process, _, err := allowedCPUs(own.Pid)
		if err != nil {
			t.Fatal(err)
		}
		exclusive, err := cpus.ParseSet(process)
		if err != nil || len(exclusive) != 1 || exclusive[0] == 0 {
			t.Fatalf("the exclusive CPU is %q (%v)", process, err)
		}
		runsOn(own, exclusive)
		runsOn(shared, all.Minus(exclusive))
		n.mustStillRun("shared", shared)
		p := n.awaitReady("own")
		at, err := cgroupPath(own.Pid, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		n.mustHaveValue("cpu", at, "cpu.cfs_quota_us", "-1")
		n.mustHaveValue("cpu", n.CgroupRoot()+"/pod"+string(p.UID), "cpu.cfs_quota_us", "-1")
		// A container that starts now is kept off the CPU.
		n.writeManifest("late.yaml", sleepPod("late", "one"))
		late := n.awaitRunning("late")
		runsOn(late, all.Minus(exclusive))

		// The daemon is killed, and knows the assignment at the next start.
		n.Kill()
		n.start()
		n.writeManifest("later.yaml", sleepPod("later", "one"))
		runsOn(n.awaitRunning("later"), all.Minus(exclusive))
		runsOn(own, exclusive)
		n.mustStillRun("own", own)
		n.mustStillRun("shared", shared)

		n.writeManifest("own.yaml", guaranteed("500m"))
		n.awaitStatus("own", "the resize is infeasible", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonInfeasible && strings.Contains(c.Message, "cpuManagerPolicy static") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		})
		n.mustStillRun("own", own)
		n.writeManifest("own.yaml", guaranteed("1"))

		// Another policy would break the promise to the pod that runs.
		n.Kill()
		static := n.Args
		n.Args = before
		out, err := n.Command(n.Flags()...).CombinedOutput()
		if want := `the configured policy "none" differs from "static" in the state file`; err == nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), n.PodName("own")) {
			t.Errorf("another policy: %v: %s", err, out)
		}
		n.Args = static
		n.start()
		n.removeManifest("own.yaml")
		n.awaitGone("own")
		runsOn(shared, all)
		runsOn(late, all)
		n.mustStillRun("shared", shared)

		// Nothing runs alone on a CPU: the policy can be changed.
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.Args = before
		n.start()
		n.mustStillRun("shared", shared)
	})
}
