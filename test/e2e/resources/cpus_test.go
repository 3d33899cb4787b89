package resources

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/test/e2e/harness"
)

// With the CPU manager's policy static a container of a Guaranteed pod has CPUs of its own, and
// no quota; the others run on the rest, also those that ran before, without a restart. The
// assignment survives the daemon, is not resized, and its end returns the CPU to the others. The
// policy cannot be changed meanwhile.
func TestExclusiveCPUs(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "cpuset") {
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
			return harness.SleepPod("own", "one") + harness.Resources("limits: {cpu: "+cpu+", memory: 40Mi}")
		}
		n.WriteManifest("shared.yaml", harness.SleepPod("shared", "one"))
		n.MustStart()
		shared := n.AwaitRunning("shared")
		runsOn := func(i harness.Instance, want cpus.Set) {
			t.Helper()
			n.Await(fmt.Sprintf("the kernel has CPUs %s", want), func() error {
				process, group, err := harness.AllowedCPUs(i.Pid)
				if err == nil && (process != want.String() || group != want.String()) {
					err = fmt.Errorf("the process may run on %s, and its cgroup on %s", process, group)
				}
				return err
			})
		}
		runsOn(shared, all)
		n.WriteManifest("own.yaml", guaranteed("1"))
		own := n.AwaitRunning("own")
		process, _, err := harness.AllowedCPUs(own.Pid)
		if err != nil {
			t.Fatal(err)
		}
		exclusive, err := cpus.ParseSet(process)
		if err != nil || len(exclusive) != 1 || exclusive[0] == 0 {
			t.Fatalf("the exclusive CPU is %q (%v)", process, err)
		}
		runsOn(own, exclusive)
		runsOn(shared, all.Minus(exclusive))
		n.MustStillRun("shared", shared)
		p := n.AwaitReady("own")
		at, err := harness.CgroupPath(own.Pid, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		n.MustHaveValue("cpu", at, "cpu.cfs_quota_us", "-1")
		n.MustHaveValue("cpu", n.CgroupRoot()+"/pod"+string(p.UID), "cpu.cfs_quota_us", "-1")
		// A container that starts now is kept off the CPU.
		n.WriteManifest("late.yaml", harness.SleepPod("late", "one"))
		late := n.AwaitRunning("late")
		runsOn(late, all.Minus(exclusive))

		// The daemon is killed, and knows the assignment at the next start.
		n.Kill()
		n.MustStart()
		n.WriteManifest("later.yaml", harness.SleepPod("later", "one"))
		runsOn(n.AwaitRunning("later"), all.Minus(exclusive))
		runsOn(own, exclusive)
		n.MustStillRun("own", own)
		n.MustStillRun("shared", shared)

		n.WriteManifest("own.yaml", guaranteed("500m"))
		n.AwaitStatus("own", "the resize is infeasible", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonInfeasible &&
					strings.Contains(c.Message, "cpuManagerPolicy static") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		})
		n.MustStillRun("own", own)
		n.WriteManifest("own.yaml", guaranteed("1"))

		// Another policy would break the promise to the pod that runs.
		n.Kill()
		static := n.Args
		n.Args = before
		out, err := n.Command(n.Flags()...).CombinedOutput()
		if want := `the configured policy "none" differs from "static" in the state file`; err == nil ||
			!strings.Contains(string(out), want) || !strings.Contains(string(out), n.PodName("own")) {
			t.Errorf("another policy: %v: %s", err, out)
		}
		n.Args = static
		n.MustStart()
		n.RemoveManifest("own.yaml")
		n.AwaitGone("own")
		runsOn(shared, all)
		runsOn(late, all)
		n.MustStillRun("shared", shared)

		// Nothing runs alone on a CPU: the policy can be changed.
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		n.Args = before
		n.MustStart()
		n.MustStillRun("shared", shared)
	})
}
