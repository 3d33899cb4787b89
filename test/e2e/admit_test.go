package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/test/testbed"
)

// podWithSpec returns the manifest of a pod with additional fields in its spec.
func podWithSpec(name, spec string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %[2]s}
spec:
  terminationGracePeriodSeconds: 0
  %[3]s
  containers: [{name: main, image: %[1]s, command: [sleep, "100000"]}]
`, testbed.BusyboxImage, name, spec)
}

// awaitHeld waits until a pod is Pending with a reason and a message that contains the words.
func (n *node) awaitHeld(name, reason string, words ...string) {
	n.t.Helper()
	n.awaitStatus(name, "is held for "+reason, func(p v1.Pod) error {
		if p.Status.Phase != v1.PodPending || p.Status.Reason != reason {
			return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		for _, w := range words {
			if !strings.Contains(p.Status.Message, w) {
				return fmt.Errorf("%q is not in %q", w, p.Status.Message)
			}
		}
		return nil
	})
	if all, err := n.sandboxes(name); err != nil || len(all) > 0 {
		n.t.Errorf("pod %q has sandboxes %v, %v", name, all, err)
	}
}

// A pod with a node selector that the node does not match is held, with a message that names
// the missing label. It starts when the node gets the label and keeps running when the node
// loses it.
func TestNodeSelector(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("here.yaml", podWithSpec("here", fmt.Sprintf("nodeSelector: {kubernetes.io/hostname: %s, kubernetes.io/os: linux}", n.Name)))
		n.writeManifest("label.yaml", podWithSpec("label", "nodeSelector: {disk: ssd}"))
		n.writeManifest("term.yaml", podWithSpec("term", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a, b]}]}]}}}"))
		n.start()
		n.awaitRunning("here")
		n.awaitHeld("label", "NodeAffinity", "not labelled disk=ssd", "--node-labels=disk=ssd")
		n.awaitHeld("term", "NodeAffinity", "(zone In a,b)")
		n.Args = []string{"--node-labels", "disk=ssd,zone=b"}
		n.restart()
		label, term := n.awaitRunning("label"), n.awaitRunning("term")
		n.Args = nil
		n.restart()
		n.awaitReady("label")
		n.mustStillRun("label", label)
		n.mustStillRun("term", term)
	})
}

// Safe sysctls are set in the pod only. Unsafe sysctls need --allowed-unsafe-sysctls.
func TestSysctls(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		const message, somaxconn = "{name: kernel/msgmax, value: \"16384\"}", "{name: net.core.somaxconn, value: \"777\"}"
		n.writeManifest("safe.yaml", podWithSpec("safe", "securityContext: {sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: \"81\"}, {name: net/ipv4/tcp_fin_timeout, value: \"33\"}, {name: kernel.shm_rmid_forced, value: \"1\"}]}"))
		n.writeManifest("unsafe.yaml", podWithSpec("unsafe", "securityContext: {sysctls: ["+message+", "+somaxconn+"]}"))
		n.writeManifest("host.yaml", podWithSpec("host", "securityContext: {sysctls: [{name: vm.swappiness, value: \"1\"}]}"))
		n.start()
		safe := n.awaitRunning("safe")
		read := func(i instance, file, want string) {
			t.Helper()
			if got := n.exec(i, "cat", "/proc/sys/"+file); got != want {
				t.Errorf("%s is %q, want %q", file, got, want)
			}
		}
		read(safe, "net/ipv4/ip_unprivileged_port_start", "81")
		read(safe, "net/ipv4/tcp_fin_timeout", "33")
		read(safe, "kernel/shm_rmid_forced", "1")
		n.awaitHeld("host", "SysctlForbidden", "sysctls[0]: vm.swappiness is not namespaced")
		n.awaitHeld("unsafe", "SysctlForbidden", "sysctls[0]: kernel/msgmax", "--allowed-unsafe-sysctls=kernel.msgmax")
		n.Args = []string{"--allowed-unsafe-sysctls", "kernel.msg*,net.core.somaxconn"}
		n.restart()
		unsafe := n.awaitRunning("unsafe")
		read(unsafe, "kernel/msgmax", "16384")
		read(unsafe, "net/core/somaxconn", "777")
		n.mustStillRun("safe", safe)
	})
}

// On a host without AppArmor, a pod with an AppArmor profile does not start. On a host without
// SELinux, a pod with SELinux labels starts and gets an event.
func TestHostWithoutSecurityModules(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("armor.yaml", podWithSpec("armor", "securityContext: {appArmorProfile: {type: RuntimeDefault}}"))
		n.writeManifest("open.yaml", podWithSpec("open", "securityContext: {appArmorProfile: {type: Unconfined}}"))
		n.writeManifest("label.yaml", podWithSpec("label", "securityContext: {seLinuxOptions: {type: spc_t, level: s0}}"))
		n.start()
		n.awaitRunning("open")
		n.awaitRunning("label")
		if enabled, _ := os.ReadFile("/sys/module/apparmor/parameters/enabled"); strings.HasPrefix(string(enabled), "Y") {
			profile, err := os.ReadFile(fmt.Sprintf("/proc/%d/attr/current", n.awaitRunning("armor").Pid))
			if err != nil || strings.HasPrefix(string(profile), "unconfined") {
				t.Errorf("confined by %q, %v", profile, err)
			}
		} else {
			n.awaitHeld("armor", "AppArmor", "AppArmor is not enabled on this host")
		}
		n.await("an event for the SELinux labels", func() error {
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", podWithSpec("p", "readinessGates: [{conditionType: example.com/balanced}]"))
		n.start()
		n.awaitRunning("p")
		n.awaitStatus("p", "its containers are ready and the pod is not", func(p v1.Pod) error {
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		sized := func(name, memory, more string) string {
			return podWithSpec(name, more+"resources: {requests: {memory: "+memory+"}}")
		}
		capacity := cgroup.Capacity()
		// 512 MiB for pods, plus 100 MiB for the eviction threshold.
		reserved := capacity.Memory().Value() - 612<<20
		n.Args = []string{"--system-reserved", fmt.Sprintf("memory=%d", reserved), "--max-pods", "3"}
		n.writeManifest("small.yaml", sized("small", "100Mi", ""))
		n.writeManifest("large.yaml", sized("large", "300Mi", ""))
		n.start()
		small, large := n.awaitRunning("small"), n.awaitRunning("large")
		n.writeManifest("more.yaml", sized("more", "200Mi", ""))
		n.awaitHeld("more", "OutOfmemory", "requested 200Mi, used 400Mi, capacity 512Mi")
		n.writeManifest("critical.yaml", sized("critical", "250Mi", "priorityClassName: system-node-critical\n  "))
		n.awaitRunning("critical")
		n.mustStillRun("small", small)
		n.awaitStatus("large", "it is preempted", func(p v1.Pod) error {
			if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Preempting" {
				return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
			}
			return nil
		})
		// Now there is room for a pod, but no longer enough memory for the pod that waited.
		n.removeManifest("critical.yaml")
		if again := n.awaitRunning("large"); again.Pid == large.Pid {
			t.Error("the preempted pod was never terminated")
		}
		n.writeManifest("light.yaml", sized("light", "1Mi", ""))
		n.awaitRunning("light")
		n.writeManifest("last.yaml", sized("last", "1Mi", ""))
		n.awaitHeld("last", "OutOfpods", "requested 1, used 3, capacity 3")
		n.Args = []string{"--system-reserved", fmt.Sprintf("memory=%d", reserved+400<<20), "--max-pods", "1"}
		n.restart()
		n.awaitHeld("more", "OutOfpods")
		n.mustStillRun("small", small)
		n.awaitReady("large")
		n.awaitReady("light")
	})
}

// A resize that does not fit is Deferred. It is applied to the running container once another
// pod has terminated.
func TestResizeIsDeferred(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
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
		n.writeManifest("p.yaml", cpu("p", 100))
		n.writeManifest("hog.yaml", cpu("hog", all-300))
		n.start()
		p := n.awaitRunning("p")
		n.awaitRunning("hog")
		n.writeManifest("p.yaml", cpu("p", 500))
		n.awaitStatus("p", "the resize is deferred", func(p v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodResizePending && c.Reason == v1.PodReasonDeferred && strings.Contains(c.Message, "not enough cpu: requested 400m more") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		})
		at, err := cgroupPath(p.Pid, "cpu")
		if err != nil {
			t.Fatal(err)
		}
		n.mustHaveValue("cpu", at, "cpu.shares", "102")
		// A container that crashes meanwhile restarts with its previous resources.
		if err := syscall.Kill(p.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p = n.awaitOther("p", p)
		if at, err = cgroupPath(p.Pid, "cpu"); err != nil {
			t.Fatal(err)
		}
		n.mustHaveValue("cpu", at, "cpu.shares", "102")
		n.removeManifest("hog.yaml")
		n.await("the container has its CPU shares", func() error {
			if got, err := cgroupValue("cpu", at, "cpu.shares"); err != nil || got != "512" {
				return fmt.Errorf("%s, %v", got, err)
			}
			return nil
		})
		n.mustStillRun("p", p)
	})
}
