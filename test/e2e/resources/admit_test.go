package resources

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A pod with a node selector that the node does not match is held, with a message that names
// the missing label. It starts when the node gets the label and keeps running when the node
// loses it.
func TestNodeSelector(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("here.yaml", harness.PodWithSpec("here",
			fmt.Sprintf("nodeSelector: {kubernetes.io/hostname: %s, kubernetes.io/os: linux}", n.Name)))
		n.WriteManifest("label.yaml", harness.PodWithSpec("label", "nodeSelector: {disk: ssd}"))
		n.WriteManifest("term.yaml", harness.PodWithSpec("term", "affinity: {nodeAffinity: "+
			"{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: "+
			"In, values: [a, b]}]}]}}}"))
		n.MustStart()
		n.AwaitRunning("here")
		n.AwaitHeld("label", "NodeAffinity", "not labelled disk=ssd", "--node-labels=disk=ssd")
		n.AwaitHeld("term", "NodeAffinity", "(zone In a,b)")
		n.Args = []string{"--node-labels", "disk=ssd,zone=b"}
		n.Restart()
		label, term := n.AwaitRunning("label"), n.AwaitRunning("term")
		n.Args = nil
		n.Restart()
		n.AwaitReady("label")
		n.MustStillRun("label", label)
		n.MustStillRun("term", term)
	})
}

// Safe sysctls are set in the pod only. Unsafe sysctls need --allowed-unsafe-sysctls.
func TestSysctls(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const message, somaxconn = "{name: kernel/msgmax, value: \"16384\"}", "{name: net.core.somaxconn, value: \"777\"}"
		n.WriteManifest("safe.yaml", harness.PodWithSpec("safe", "securityContext: {sysctls: [{name: "+
			"net.ipv4.ip_unprivileged_port_start, value: \"81\"}, {name: net/ipv4/tcp_fin_timeout, value: \"33\"}, {name: "+
			"kernel.shm_rmid_forced, value: \"1\"}]}"))
		n.WriteManifest("unsafe.yaml",
			harness.PodWithSpec("unsafe", "securityContext: {sysctls: ["+message+", "+somaxconn+"]}"))
		n.WriteManifest("host.yaml", harness.PodWithSpec("host",
			"securityContext: {sysctls: [{name: vm.swappiness, value: \"1\"}]}"))
		n.MustStart()
		safe := n.AwaitRunning("safe")
		read := func(i harness.Instance, file, want string) {
			t.Helper()
			if got := n.Exec(i, "cat", "/proc/sys/"+file); got != want {
				t.Errorf("%s is %q, want %q", file, got, want)
			}
		}
		read(safe, "net/ipv4/ip_unprivileged_port_start", "81")
		read(safe, "net/ipv4/tcp_fin_timeout", "33")
		read(safe, "kernel/shm_rmid_forced", "1")
		n.AwaitHeld("host", "SysctlForbidden", "sysctls[0]: vm.swappiness is not namespaced")
		n.AwaitHeld("unsafe", "SysctlForbidden", "sysctls[0]: kernel/msgmax", "--allowed-unsafe-sysctls=kernel.msgmax")
		n.Args = []string{"--allowed-unsafe-sysctls", "kernel.msg*,net.core.somaxconn"}
		n.Restart()
		unsafe := n.AwaitRunning("unsafe")
		read(unsafe, "kernel/msgmax", "16384")
		read(unsafe, "net/core/somaxconn", "777")
		n.MustStillRun("safe", safe)
	})
}

// On a host without AppArmor, a pod with an AppArmor profile does not start. On a host without
// SELinux, a pod with SELinux labels starts and gets an event.
func TestHostWithoutSecurityModules(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("armor.yaml", harness.PodWithSpec("armor",
			"securityContext: {appArmorProfile: {type: RuntimeDefault}}"))
		n.WriteManifest("open.yaml", harness.PodWithSpec("open", "securityContext: {appArmorProfile: {type: Unconfined}}"))
		n.WriteManifest("label.yaml", harness.PodWithSpec("label",
			"securityContext: {seLinuxOptions: {type: spc_t, level: s0}}"))
		n.MustStart()
		n.AwaitRunning("open")
		n.AwaitRunning("label")
		if enabled, _ := os.ReadFile("/sys/module/apparmor/parameters/enabled"); strings.HasPrefix(string(enabled), "Y") {
			profile, err := os.ReadFile(fmt.Sprintf("/proc/%d/attr/current", n.AwaitRunning("armor").Pid))
			if err != nil || strings.HasPrefix(string(profile), "unconfined") {
				t.Errorf("confined by %q, %v", profile, err)
			}
		} else {
			n.AwaitHeld("armor", "AppArmor", "AppArmor is not enabled on this host")
		}
		n.Await("an event for the SELinux labels", func() error {
			events, err := n.Get(t.Context(), "/podstead/v1/events?pod="+n.PodName("label"))
			if err == nil && !strings.Contains(string(events), "SELinuxIgnored") {
				err = fmt.Errorf("%s", events)
			}
			return err
		})
	})
}

// A pod whose readiness gate has no condition runs and is not ready.
func TestReadinessGate(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.PodWithSpec("p", "readinessGates: [{conditionType: example.com/balanced}]"))
		n.MustStart()
		n.AwaitRunning("p")
		n.AwaitStatus("p", "its containers are ready and the pod is not", func(p v1.Pod) error {
			seen := map[v1.PodConditionType]v1.PodCondition{}
			for _, c := range p.Status.Conditions {
				seen[c.Type] = c
			}
			ready := seen[v1.PodReady]
			if seen[v1.ContainersReady].Status != v1.ConditionTrue || ready.Status != v1.ConditionFalse ||
				ready.Reason != "ReadinessGatesNotReady" || !strings.Contains(ready.Message, "example.com/balanced") {
				return fmt.Errorf("%+v", p.Status.Conditions)
			}
			return nil
		})
	})
}

// With the node's allocatable resources full, a new pod is held, a critical pod preempts
// others, and each held pod starts when there is room. A restart of the daemon stops no
// running pod, even if allocatable is now less than what they request.
func TestNodeAllocatable(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		sized := func(name, memory, more string) string {
			return harness.PodWithSpec(name, more+"resources: {requests: {memory: "+memory+"}}")
		}
		capacity := cgroup.Capacity()
		// 512 MiB for pods, plus 100 MiB for the eviction threshold.
		reserved := capacity.Memory().Value() - 612<<20
		n.Args = []string{"--system-reserved", fmt.Sprintf("memory=%d", reserved), "--max-pods", "3"}
		n.WriteManifest("small.yaml", sized("small", "100Mi", ""))
		n.WriteManifest("large.yaml", sized("large", "300Mi", ""))
		n.MustStart()
		small, large := n.AwaitRunning("small"), n.AwaitRunning("large")
		n.WriteManifest("more.yaml", sized("more", "200Mi", ""))
		n.AwaitHeld("more", "OutOfmemory", "requested 200Mi, used 400Mi, capacity 512Mi")
		n.WriteManifest("critical.yaml", sized("critical", "250Mi", "priorityClassName: system-node-critical\n  "))
		n.AwaitRunning("critical")
		n.MustStillRun("small", small)
		n.AwaitStatus("large", "it is preempted", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Preempting" {
				return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return nil
		})
		// Now there is room for a pod, but no longer enough memory for the pod that waited.
		n.RemoveManifest("critical.yaml")
		if again := n.AwaitRunning("large"); again.Pid == large.Pid {
			t.Error("the preempted pod was never terminated")
		}
		n.WriteManifest("light.yaml", sized("light", "1Mi", ""))
		n.AwaitRunning("light")
		n.WriteManifest("last.yaml", sized("last", "1Mi", ""))
		n.AwaitHeld("last", "OutOfpods", "requested 1, used 3, capacity 3")
		n.Args = []string{"--system-reserved", fmt.Sprintf("memory=%d", reserved+400<<20), "--max-pods", "1"}
		n.Restart()
		n.AwaitHeld("more", "OutOfpods")
		n.MustStillRun("small", small)
		n.AwaitReady("large")
		n.AwaitReady("light")
	})
}

// A resize that does not fit is Deferred. It is applied to the running container once another
// pod has terminated.
func TestResizeIsDeferred(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		cpu := func(name string, milli int64) string {
			return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 0
  containers: [{name: main, image: %s, command: [sleep, "100000"], resources: {requests: {cpu: %dm}}}]
`, name, testbed.BusyboxImage, milli)
		}
		capacity := cgroup.Capacity()
		all := capacity.Cpu().MilliValue()
		n.WriteManifest("p.yaml", cpu("p", 100))
		n.WriteManifest("hog.yaml", cpu("hog", all-300))
		n.MustStart()
		p := n.AwaitRunning("p")
		n.AwaitRunning("hog")
		n.WriteManifest("p.yaml", cpu("p", 500))
		n.AwaitStatus("p", "the resize is deferred", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonDeferred &&
					strings.Contains(c.Message, "not enough cpu: requested 400m more") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		})
		at, err := harness.CgroupPath(p.Pid, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		n.MustHaveValue("cpu", at, "cpu.shares", "102")
		// A container that crashes meanwhile restarts with its previous resources.
		if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p = n.AwaitOther("p", p)
		if at, err = harness.CgroupPath(p.Pid, "cpu"); err != nil {
			t.Fatal(err)
		}
		n.MustHaveValue("cpu", at, "cpu.shares", "102")
		n.RemoveManifest("hog.yaml")
		n.Await("the container has its CPU shares", func() error {
			if got, err := harness.CgroupValue("cpu", at, "cpu.shares"); err != nil || got != "512" {
				return fmt.Errorf("%s, %v", got, err)
			}
			return nil
		})
		n.MustStillRun("p", p)
	})
}
