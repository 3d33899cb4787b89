package docs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// busyMemory is what the busy pod keeps in memory, in MiB, and busyCPU the limit of its CPU, in
// millicores.
const (
	busyMemory = 48
	busyCPU    = 100
)

// startBusyPod starts a pod that uses a constant amount of CPU and memory.
func (m *kubeadmMachine) startBusyPod() {
	m.T.Helper()
	m.must(fmt.Sprintf(`kubectl apply -f - <<'END'
apiVersion: v1
kind: Pod
metadata: {name: busy}
spec:
  containers:
  - name: main
    image: %s
    command: [sh, -c, "dd if=/dev/zero of=/dev/shm/fill bs=1M count=%d; while :; do :; done"]
    resources: {limits: {cpu: %dm}}
END
kubectl wait --for=condition=Ready pod/busy --timeout=10m`, testbed.BusyboxImage, busyMemory, busyCPU))
}

// kernelUsage is what the kernel counts.
type kernelUsage struct {
	at         time.Time
	cpu        time.Duration // since the container started, or the host
	workingSet int64         // in bytes
}

// cgroupUsage is a script that prints the time since boot in seconds, the CPU time in nanoseconds,
// the memory and the inactive page cache in bytes of the container that runs it.
const cgroupUsage = `read up rest < /proc/uptime
echo $up
cd /sys/fs/cgroup
if [ -e cgroup.controllers ]; then
	awk '/^usage_usec/ {print $2 "000"}' cpu.stat
	cat memory.current
	awk '/^inactive_file/ {print $2}' memory.stat
else
	cat cpuacct/cpuacct.usage memory/memory.usage_in_bytes
	awk '/^total_inactive_file/ {print $2}' memory/memory.stat
fi`

// busyUsage returns the kernel's numbers of the busy pod, seen from inside its container.
func (m *kubeadmMachine) busyUsage() kernelUsage {
	m.T.Helper()
	var u kernelUsage
	out := m.must("kubectl exec busy -- sh -c '" + strings.ReplaceAll(cgroupUsage, "'", `'\''`) + "'")
	var inactive int64
	var up float64
	if _, err := fmt.Sscan(out, &up, &u.cpu, &u.workingSet, &inactive); err != nil {
		m.T.Fatalf("unexpected numbers of a cgroup: %v: %s", err, out)
	}
	// An exec takes seconds on a busy machine.
	u.at = harness.BootTime(m.T).Add(time.Duration(up * float64(time.Second)))
	u.workingSet -= inactive
	return u
}

// hostUsage returns the kernel's numbers of the host, which are also those of the machine.
func (m *kubeadmMachine) hostUsage() kernelUsage {
	m.T.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		m.T.Fatal(err)
	}
	meminfo, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		m.T.Fatal(err)
	}
	u := kernelUsage{at: time.Now()}
	var user, nice, system int64
	if _, err := fmt.Sscanf(string(stat), "cpu %d %d %d", &user, &nice, &system); err != nil {
		m.T.Fatalf("/proc/stat: %v", err)
	}
	u.cpu = time.Duration(user+nice+system) * 10 * time.Millisecond
	for line := range strings.Lines(string(meminfo)) {
		var name string
		var kilobytes int64
		if _, err := fmt.Sscan(line, &name, &kilobytes); err != nil {
			continue
		}
		switch name {
		case "MemTotal:":
			u.workingSet += kilobytes << 10
		case "MemFree:", "Inactive(file):":
			u.workingSet -= kilobytes << 10
		}
	}
	return u
}

// podMetrics is the part of metrics.k8s.io/v1beta1 PodMetrics that the test reads.
type podMetrics struct {
	Timestamp  metav1.Time
	Window     metav1.Duration
	Containers []struct {
		Name  string
		Usage v1.ResourceList
	}
}

// checkUsage checks that kubectl top prints what the kernel counts: for the busy pod, and for
// the node. What they use depends on the load of the machine and changes with it, so it compares
// until they agree.
func (m *kubeadmMachine) checkUsage() {
	m.T.Helper()
	harness.Await(m.T, "kubectl top agrees with the kernel", m.compareUsage, 15*time.Minute)
	m.must("kubectl delete pod busy --now")
}

// compareUsage returns an error unless kubectl top prints what the kernel counts.
func (m *kubeadmMachine) compareUsage() error {
	before, hostBefore := m.busyUsage(), m.hostUsage()
	var metrics podMetrics
	harness.Await(m.T, "the metrics server measures the busy pod", func() error {
		out, err := m.shell("kubectl get --raw /apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		metrics = podMetrics{}
		if err := json.Unmarshal([]byte(out), &metrics); err != nil {
			return err
		}
		if start := metrics.Timestamp.Add(-metrics.Window.Duration); start.Before(before.at) {
			return fmt.Errorf("it measured from %s on, before %s", start, before.at)
		}
		return nil
	})
	if c := metrics.Containers; len(c) != 1 || c[0].Name != "main" {
		return fmt.Errorf("the metrics of the busy pod are of containers %+v", c)
	}
	pod, err := m.shell("kubectl top pod busy --no-headers")
	if err != nil {
		return fmt.Errorf("%w: %s", err, pod)
	}
	node, err := m.shell("kubectl top node --no-headers")
	if err != nil {
		return fmt.Errorf("%w: %s", err, node)
	}
	after, hostAfter := m.busyUsage(), m.hostUsage()
	m.T.Logf("kubectl top pod: %skubectl top node: %sthe kernel: %s, %s", pod, node, usageBetween(before, after),
		usageBetween(hostBefore, hostAfter))
	// The columns are name, CPU, memory; those of a node have a percentage after each.
	podFields, nodeFields := strings.Fields(pod), strings.Fields(node)
	if len(podFields) != 3 || len(nodeFields) != 5 {
		return fmt.Errorf("unexpected columns: %s%s", pod, node)
	}
	return errors.Join(usageAgrees(podFields[1], podFields[2], before, after),
		usageAgrees(nodeFields[1], nodeFields[3], hostBefore, hostAfter))
}

// usageBetween describes what was used in a time.
func usageBetween(from, to kernelUsage) string {
	return fmt.Sprintf("%dm %dMi", cpuRate(from, to), to.workingSet>>20)
}

// cpuRate returns the CPU that was used in a time, in millicores.
func cpuRate(from, to kernelUsage) int64 {
	return int64(to.cpu-from.cpu) * 1000 / int64(to.at.Sub(from.at))
}

// usageAgrees compares the columns of kubectl top with what the kernel counted in a time that
// includes the window of the metrics server.
func usageAgrees(cpu, memory string, from, to kernelUsage) error {
	var errs []error
	for _, c := range []struct {
		what, column string
		low, high    int64
	}{
		// The rate is not the same all the time.
		{"CPU in millicores", cpu, cpuRate(from, to) / 2, cpuRate(from, to)*2 + 1},
		{"memory in bytes", memory, min(from.workingSet, to.workingSet) * 3 / 4, max(from.workingSet, to.workingSet) * 5 / 4},
	} {
		q, err := resource.ParseQuantity(c.column)
		if err != nil {
			return err
		}
		got := q.Value()
		if c.column == cpu {
			got = q.MilliValue()
		}
		if got < c.low || got > c.high {
			errs = append(errs, fmt.Errorf("%s is %s, the kernel has %d to %d", c.what, c.column, c.low, c.high))
		}
	}
	return errors.Join(errs...)
}
