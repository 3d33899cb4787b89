package resources

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// resizable returns a pod of two containers. other changes only its memory, and such a change
// restarts it. The script eat makes main use 40 MB.
func resizable(main, otherMemory string) string {
	return harness.ScriptPod("p", "one", 1, "trap exit TERM; while :; do if [ -e /data/eat ]; then x=$(head -c 20000000 "+
		"/dev/zero | tr '\\0' x); else x=; fi; sleep 0.1; done") +
		harness.Resources(main) + "      volumeMounts: [{name: data, mountPath: /data}]\n" +
		"    - {name: other, image: " + testbed.BusyboxImage + ", command: [sleep, '100000'], resizePolicy: " +
		"[{resourceName: memory, restartPolicy: RestartContainer}], resources: {limits: {cpu: 100m, memory: " + otherMemory +
		"}}}\n" +
		"  volumes: [{name: data, emptyDir: {}}]\n"
}

// mustReportAFailedResize is what is documented of a host with a cgroup v1 controller that is not
// mounted: the runtime does not tell how much memory a container uses, so that a limit is raised
// and not lowered. The status reports why, and the same process keeps running.
func mustReportAFailedResize(n *harness.Node) {
	n.T.Helper()
	n.WriteManifest("p.yaml", resizable("limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 10m}", "16Mi"))
	n.MustStart()
	first := n.AwaitRunning("p")
	n.AwaitReady("p")
	limitOf := func(bytes int64) func(v1.Pod) error {
		return func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.Name == "main" && c.Resources != nil && c.Resources.Limits.Memory().Value() == bytes {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		}
	}
	n.WriteManifest("p.yaml", resizable("limits: {cpu: 100m, memory: 96Mi}, requests: {cpu: 10m}", "16Mi"))
	n.AwaitStatus("p", "the limit is raised", limitOf(96<<20))
	n.WriteManifest("p.yaml", resizable("limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 10m}", "16Mi"))
	n.AwaitStatus("p", "the limit is lowered, or the status says why not", func(p v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError && c.Message != "" {
				return nil
			}
		}
		return limitOf(64 << 20)(p)
	})
	n.MustStillRun("p", first)
}

// Changed resources are applied in place: the same process and its pod's cgroup get other
// limits, and a restart of the daemon loses nothing.
func TestResizeKeepsThePod(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory") {
			return
		}
		if len(harness.UnmountedControllers(t)) > 0 {
			mustReportAFailedResize(n)
			return
		}
		n.WriteManifest("p.yaml", resizable("limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 10m}", "16Mi"))
		n.MustStart()
		first, other := n.AwaitRunning("p"), n.AwaitContainer("p", "other")
		p := n.AwaitReady("p")
		pod := filepath.Join(n.CgroupRoot(), "burstable", "pod"+string(p.UID))
		at, err := harness.CgroupPath(first.Pid, "memory")
		if err != nil {
			t.Fatal(err)
		}
		has := func(values map[string]string) {
			t.Helper()
			n.Await(fmt.Sprintf("the kernel has %v", values), func() error {
				var errs []error
				for file, want := range values {
					where, name, _ := strings.Cut(file, ":")
					path := map[string]string{"pod": pod, "main": at}[where]
					controller, _, _ := strings.Cut(name, ".")
					if got, err := harness.CgroupValue(controller, path, name); err != nil || got != want {
						errs = append(errs, fmt.Errorf("%s is %s (%v)", file, got, err))
					}
				}
				return errors.Join(errs...)
			})
			n.MustStillRun("p", first)
		}
		const mib = 1 << 20
		has(map[string]string{"pod:memory.limit_in_bytes": fmt.Sprint(80 * mib),
			"main:memory.limit_in_bytes": fmt.Sprint(64 * mib)})

		n.WriteManifest("p.yaml", resizable("limits: {cpu: 300m, memory: 96Mi}, requests: {cpu: 50m}", "16Mi"))
		has(map[string]string{
			"pod:cpu.cfs_quota_us": "40000", "pod:cpu.shares": "153", "pod:memory.limit_in_bytes": fmt.Sprint(112 * mib),
			"main:cpu.cfs_quota_us": "30000", "main:cpu.shares": "51", "main:memory.limit_in_bytes": fmt.Sprint(96 * mib),
		})
		n.AwaitStatus("p", "the resources are reported", func(p v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				if c.Name == "main" && c.Resources != nil && c.Resources.Limits.Memory().Value() == 96*mib && c.RestartCount == 0 {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		// The daemon is down during the next change and still applies it.
		n.Kill()
		n.WriteManifest("p.yaml", resizable("limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 10m}", "16Mi"))
		n.MustStart()
		has(map[string]string{
			"pod:cpu.cfs_quota_us": "20000", "pod:memory.limit_in_bytes": fmt.Sprint(80 * mib),
			"main:cpu.cfs_quota_us": "10000", "main:cpu.shares": "10", "main:memory.limit_in_bytes": fmt.Sprint(64 * mib),
		})
		// A removed limit is removed from the pod's cgroup too.
		n.WriteManifest("p.yaml", resizable("limits: {memory: 64Mi}, requests: {cpu: 10m}", "16Mi"))
		has(map[string]string{"pod:cpu.cfs_quota_us": "-1", "main:cpu.cfs_quota_us": "-1",
			"main:memory.limit_in_bytes": fmt.Sprint(64 * mib)})

		// A limit below the current usage is not applied until the memory is free.
		n.Exec(first, "touch", "/data/eat")
		n.Await("main uses memory", func() error {
			got, err := harness.CgroupValue("memory", at, "memory.usage_in_bytes")
			if len(got) < len("20000000") || got < "20000000" {
				return fmt.Errorf("%s (%v)", got, err)
			}
			return nil
		})
		n.WriteManifest("p.yaml", resizable("limits: {memory: 8Mi}, requests: {cpu: 10m}", "16Mi"))
		n.AwaitStatus("p", "the reason for the unchanged limit", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizeInProgress && c.Reason == v1.PodReasonError && strings.Contains(c.Message, "main") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		})
		has(map[string]string{"main:memory.limit_in_bytes": fmt.Sprint(64 * mib)})
		n.Exec(first, "rm", "/data/eat")
		has(map[string]string{"main:memory.limit_in_bytes": fmt.Sprint(8 * mib),
			"pod:memory.limit_in_bytes": fmt.Sprint(24 * mib)})

		// Only a container with that resize policy restarts.
		if got := n.AwaitContainer("p", "other"); got != other {
			t.Errorf("the container that did not change was restarted: %+v, then %+v", other, got)
		}
		n.WriteManifest("p.yaml", resizable("limits: {memory: 8Mi}, requests: {cpu: 10m}", "32Mi"))
		n.Await("other runs with its new limit", func() error {
			found, err := n.Running("p")
			if err != nil || found["other"].ID == other.ID || found["other"].ID == "" {
				return fmt.Errorf("running: %v (%v)", found, err)
			}
			where, err := harness.CgroupPath(found["other"].Pid, "memory")
			if err != nil {
				return err
			}
			if got, err := harness.CgroupValue("memory", where, "memory.limit_in_bytes"); got != fmt.Sprint(32*mib) {
				return fmt.Errorf("%s (%v)", got, err)
			}
			return nil
		})
		n.MustStillRun("p", first)
		if all, err := n.Sandboxes("p"); err != nil || len(all) != 1 {
			t.Errorf("sandboxes %v, %v, want the previous one", all, err)
		}
	})
}

// limitedPod returns a pod with the limits and two containers: main has no limits of its own, and other restarts
// for another limit of memory.
func limitedPod(limits string) string {
	return strings.Replace(harness.SleepPod("p", "one"), "spec:\n", "spec:\n  resources: {limits: "+limits+"}\n", 1) +
		"    - {name: other, image: " + testbed.BusyboxImage + ", command: [sleep, '100000'], resizePolicy: " +
		"[{resourceName: memory, restartPolicy: RestartContainer}], resources: {limits: {cpu: 100m}}}\n"
}

// The limits of a pod are those of its containers without their own, and follow a resize of the pod.
func TestResizeOfPodLevelLimits(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory") || len(harness.UnmountedControllers(t)) > 0 {
			return
		}
		n.WriteManifest("p.yaml", limitedPod("{cpu: 300m, memory: 64Mi}"))
		n.MustStart()
		first, other := n.AwaitRunning("p"), n.AwaitContainer("p", "other")
		const mib = 1 << 20
		has := func(i harness.Instance, quota string, memory int64) {
			t.Helper()
			n.Await(fmt.Sprintf("the kernel has quota %s and %d bytes", quota, memory), func() error {
				var errs []error
				for file, want := range map[string]string{"cpu.cfs_quota_us": quota, "memory.limit_in_bytes": fmt.Sprint(memory)} {
					controller, _, _ := strings.Cut(file, ".")
					at, err := harness.CgroupPath(i.Pid, controller)
					if err != nil {
						return err
					}
					for path, applies := range map[string]bool{at: true, filepath.Dir(at): i == first} {
						if got, err := harness.CgroupValue(controller, path, file); applies && (err != nil || got != want) {
							errs = append(errs, fmt.Errorf("%s of %s is %s (%v)", file, path, got, err))
						}
					}
				}
				return errors.Join(errs...)
			})
		}
		has(first, "30000", 64*mib)
		has(other, "10000", 64*mib)
		for _, to := range []struct {
			limits, quota string
			memory        int64
		}{{"{cpu: 400m, memory: 96Mi}", "40000", 96 * mib}, {"{cpu: 200m, memory: 48Mi}", "20000", 48 * mib}} {
			n.WriteManifest("p.yaml", limitedPod(to.limits))
			has(first, to.quota, to.memory)
			n.MustStillRun("p", first)
			n.Await("other restarts", func() error {
				found, err := n.Running("p")
				if err != nil || found["other"].ID == "" || found["other"].ID == other.ID {
					return fmt.Errorf("running: %v (%v)", found, err)
				}
				other = found["other"]
				return nil
			})
			has(other, "10000", to.memory)
		}
		// Only the cpu changes, for which other does not restart and which it has of its own.
		n.WriteManifest("p.yaml", limitedPod("{cpu: 500m, memory: 48Mi}"))
		has(first, "50000", 48*mib)
		has(other, "10000", 48*mib)
		n.MustStillRun("p", first)
		n.AwaitStatus("p", "the resize is complete, and no container shows limits that are not its own",
			func(p v1.Pod) error {
				for _, c := range p.Status.Conditions {
					if c.Type == v1.PodResizeInProgress || c.Type == v1.PodResizePending {
						return fmt.Errorf("%+v", c)
					}
				}
				for _, c := range p.Status.ContainerStatuses {
					if c.Resources == nil || !c.Resources.Limits.Memory().IsZero() {
						return fmt.Errorf("%s: %+v", c.Name, c.Resources)
					}
				}
				return nil
			})
		if now := n.AwaitContainer("p", "other"); now != other {
			t.Errorf("other was restarted: %+v, then %+v", other, now)
		}
	})
}
