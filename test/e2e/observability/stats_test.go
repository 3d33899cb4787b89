package observability

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// cgroupUsage returns the kernel's accounting of a container: CPU in nanoseconds, working set
// and usage in bytes.
func cgroupUsage(n *harness.Node, pid int) (cpu, working, usage float64) {
	n.T.Helper()
	read := func(controller, file string) string {
		path, err := harness.CgroupPath(pid, controller)
		if err != nil {
			n.T.Fatal(err)
		}
		text, err := harness.CgroupValue(controller, path, file)
		if err != nil {
			n.T.Fatal(err)
		}
		return text
	}
	number := func(text string) float64 {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			n.T.Fatal(err)
		}
		return f
	}
	usage = number(read("memory", "memory.usage_in_bytes"))
	for line := range strings.Lines(read("memory", "memory.stat")) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "total_inactive_file "); ok {
			working = usage - number(text)
		}
	}
	return number(read("cpuacct", "cpuacct.usage")), working, usage
}

// mustBeNear fails the test if a figure is not within a margin.
func mustBeNear(n *harness.Node, what string, got, want, margin float64) {
	n.T.Helper()
	if got < want-margin || got > want+margin {
		n.T.Errorf("%s is %.0f, want %.0f +- %.0f", what, got, want, margin)
	}
}

const mega = 1 << 20

// The usage of a pod with a known load is reported by every endpoint and agrees with the
// kernel's accounting.
func TestUsage(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("cpu", "memory") {
			return
		}
		n.Args = []string{"--volume-stats-agg-period", "1s"}
		n.WriteManifest("load.yaml", `apiVersion: v1
kind: Pod
metadata: {name: load, labels: {app: load}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: burn
      image: `+testbed.BusyboxImage+`
      command: [sh, -c, "while :; do :; done"]
      readinessProbe: {exec: {command: ["true"]}, periodSeconds: 1, timeoutSeconds: 300}
      resources: {limits: {cpu: 100m}}
    - name: hold
      image: `+testbed.BusyboxImage+`
      command: [sh, -c, "(head -c 33554432 /dev/zero; exec sleep 100000) | tail -c 33554432"]
      resources: {limits: {memory: 100Mi}}
    - name: write
      image: `+testbed.BusyboxImage+`
      command: [sh, -c, "dd if=/dev/urandom of=/written bs=1M count=8; dd if=/dev/urandom of=/scratch/a bs=1M count=4; head -c 1000000 /dev/zero | tr '\\0' x | fold -w 100; sync; exec sleep 100000"]
      volumeMounts: [{name: scratch, mountPath: /scratch}, {name: mem, mountPath: /mem}]
  volumes: [{name: scratch, emptyDir: {}}, {name: mem, emptyDir: {medium: Memory, sizeLimit: 8Mi}}]
`)
		n.MustStart()
		n.AwaitReady("load")
		burn, hold := n.AwaitContainer("load", "burn"), n.AwaitContainer("load", "hold")
		n.Await("memory is used", func() error {
			if _, working, _ := cgroupUsage(n, hold.Pid); working < 32*mega {
				return fmt.Errorf("working set is %.0f", working)
			}
			return nil
		})

		// How much CPU it gets depends on the load of the machine. The kernel's accounting of
		// the same period is the reference, which a figure matches sooner or later even on a
		// busy machine.
		began := time.Now()
		start, _, _ := cgroupUsage(n, burn.Pid)
		var measured any // when the figure was measured that was compared last
		cores := func(what string, figure func() float64) {
			t.Helper()
			n.Await("the CPU usage of burn in "+what, func() error {
				at := n.Figures("/stats/summary?only_cpu_and_memory=true").At("pods", n.PodName("load"), "containers", "burn",
					"cpu", "time").Value
				if at == nil || at == measured {
					return fmt.Errorf("no figure since %v", measured)
				}
				measured = at
				got := figure()
				now, _, _ := cgroupUsage(n, burn.Pid)
				want := (now - start) / float64(time.Since(began).Nanoseconds())
				began, start = time.Now(), now
				if got >= want*0.6 && got <= want*1.4 && got <= 0.12 && got > 0 {
					return nil
				}
				return fmt.Errorf("%.3f cores, %.3f according to the kernel, with a limit of 0.1", got, want)
			})
		}

		// The first response already has a rate, which takes a second to measure.
		name := n.PodName("load")
		only := n.Figures("/stats/summary?only_cpu_and_memory=true")
		if only.At("pods", name, "containers", "burn", "cpu", "usageNanoCores").Number() <= 0 {
			t.Error("the first summary has no rate")
		}
		inSummary := func() float64 {
			return n.Figures("/stats/summary").At("pods", name, "containers", "burn", "cpu", "usageNanoCores").Number() / 1e9
		}
		cores("the summary", inSummary)
		if only.At("node", "fs").Value != nil || only.At("pods", name, "volume").Value != nil {
			t.Error("only CPU and memory were requested")
		}

		// The figure is between the kernel's values before and after.
		_, working, usage := cgroupUsage(n, hold.Pid)
		var s, pod harness.Figure
		n.Await("a new measurement", func() error {
			before, _, _ := cgroupUsage(n, burn.Pid)
			_, working, usage = cgroupUsage(n, hold.Pid)
			s = n.Figures("/stats/summary")
			after, _, _ := cgroupUsage(n, burn.Pid)
			pod = s.At("pods", name)
			if got := pod.At("containers", "burn", "cpu", "usageCoreNanoSeconds").Number(); got < before || got > after {
				return fmt.Errorf("burn used %.0f ns, the kernel had %.0f before and %.0f after", got, before, after)
			}
			return nil
		})
		if whole, part := pod.At("cpu", "usageCoreNanoSeconds").Number(),
			pod.At("containers", "burn", "cpu", "usageCoreNanoSeconds").Number(); whole < part {
			t.Errorf("the pod used %.0f ns, one container of it %.0f", whole, part)
		}
		mustBeNear(n, "working set of hold", pod.At("containers", "hold", "memory", "workingSetBytes").Number(), working,
			mega)
		mustBeNear(n, "usage of hold", pod.At("containers", "hold", "memory", "usageBytes").Number(), usage, mega)
		mustBeNear(n, "available of hold", pod.At("containers", "hold", "memory", "availableBytes").Number(),
			100*mega-working, mega)
		if got := pod.At("memory", "workingSetBytes").Number(); got < working || got > working+64*mega {
			t.Errorf("working set of the pod is %.0f, of one container %.0f", got, working)
		}
		switch got := pod.At("process_stats", "process_count").Number(); {
		case !harness.HasController("pids"):
			if got >= 0 {
				t.Errorf("the pod has %v processes, which nothing counts here", got)
			}
		case got < 6:
			t.Errorf("the pod has %v processes; pause, burn, three of hold and write are six", got)
		}
		if got := pod.At("network", "name").Value; got != "eth0" {
			t.Errorf("the first interface is %v", got)
		}
		if fs := s.At("node", "fs"); fs.At("capacityBytes").Number() <= fs.At("availableBytes").Number() ||
			fs.At("inodesUsed").Number() <= 0 {
			t.Errorf("file system of the node: %v", fs)
		}
		mustBeNear(n, "capacity of the volume in memory", pod.At("volume", "mem", "capacityBytes").Number(), 8*mega, 0)

		// The runtime measures its file systems every ten seconds.
		n.Await("disks are measured", func() error {
			all := n.Figures("/stats/summary")
			pod := all.At("pods", name)
			if used := all.At("node", "runtime", "imageFs", "usedBytes").Number(); used < mega/2 {
				return fmt.Errorf("images take %.0f", used)
			}
			write := pod.At("containers", "write")
			rootfs, logs, scratch := write.At("rootfs", "usedBytes").Number(), write.At("logs", "usedBytes").Number(),
				pod.At("volume", "scratch", "usedBytes").Number()
			if rootfs < 8*mega || rootfs > 9*mega || logs < 1.3e6 || logs > 2e6 || scratch < 4*mega || scratch > 4.5*mega {
				return fmt.Errorf("root file system %.0f, logs %.0f, emptyDir %.0f", rootfs, logs, scratch)
			}
			if sum := pod.At("ephemeral-storage", "usedBytes").Number(); sum < rootfs+logs+scratch ||
				sum > rootfs+logs+scratch+mega {
				return fmt.Errorf("all together %.0f", sum)
			}
			return nil
		})

		checkScrapes(n, name, burn, hold)

		// The same through the API of kubectl top, and through podstead's own API.
		k := harness.NewKubectl(n)
		_, working, _ = cgroupUsage(n, hold.Pid)
		cells := func(out, row string) (milli, mi float64) {
			t.Helper()
			for line := range strings.Lines(out) {
				if !strings.Contains(line, row) {
					continue
				}
				f := strings.Fields(line)
				milli, err := strconv.ParseFloat(strings.TrimSuffix(f[len(f)-2], "m"), 64)
				mi, err2 := strconv.ParseFloat(strings.TrimSuffix(f[len(f)-1], "Mi"), 64)
				if err == nil && err2 == nil {
					return milli, mi
				}
			}
			t.Errorf("no line %q in:\n%s", row, out)
			return -1, -1
		}
		top := k.Must([]string{"CPU(cores)", "MEMORY(bytes)"}, "top", "pods", "-A")
		_, mi := cells(top, name)
		if mi*mega < working-2*mega || mi*mega > working+64*mega {
			t.Errorf("kubectl top pods: %.0f Mi, one container of it %.0f", mi, working/mega)
		}
		var containers string
		cores("kubectl top --containers", func() float64 {
			containers = k.Must([]string{"POD", "NAME"}, "top", "pod", name, "--containers")
			milli, _ := cells(containers, "burn")
			return milli / 1000
		})
		_, mi = cells(containers, "hold")
		mustBeNear(n, "kubectl top --containers: memory", mi*mega, working, 2*mega)
		if out := k.Must(nil, "top", "pods", "-l", "app=other"); strings.Contains(out, name) {
			t.Errorf("the selector matched too many pods: %s", out)
		}
		k.Must([]string{n.Name, "%"}, "top", "nodes")
		cores("podstead top", func() float64 {
			out, err := n.Command("top", "pods", "load", "--containers", "--sort-by", "cpu", "--api-socket",
				n.Socket()).CombinedOutput()
			if err != nil {
				t.Fatalf("podstead top: %v\n%s", err, out)
			}
			milli, _ := cells(string(out), "burn")
			return milli / 1000
		})
		t.Logf("kubectl top pods:\n%s--containers:\n%s", top, containers)
	})
}

// checkScrapes checks the same figures in the Prometheus metrics.
func checkScrapes(n *harness.Node, name string, burn, hold harness.Instance) {
	t := n.T
	t.Helper()
	var resource, cadvisor harness.Series
	valuesOf := func(container string) []string {
		return []string{`container="` + container + `"`, `namespace="default"`, `pod="` + name + `"`}
	}
	var before, working float64
	n.Await("new measurements", func() error {
		before, _, _ = cgroupUsage(n, burn.Pid)
		_, working, _ = cgroupUsage(n, hold.Pid)
		resource, cadvisor = n.Series("/metrics/resource"), n.Series("/metrics/cadvisor")
		after, _, _ := cgroupUsage(n, burn.Pid)
		for where, s := range map[string]harness.Series{"resource": resource, "cadvisor": cadvisor} {
			if got := s.Value(t, "container_cpu_usage_seconds_total", valuesOf("burn")...) * 1e9; got < before-1 ||
				got > after+1 {
				return fmt.Errorf("%s: burn used %.0f ns, the kernel had %.0f before and %.0f after", where, got, before, after)
			}
		}
		return nil
	})
	for where, s := range map[string]harness.Series{"resource": resource, "cadvisor": cadvisor} {
		mustBeNear(n, where+": working set of hold", s.Value(t, "container_memory_working_set_bytes", valuesOf("hold")...),
			working,
			mega)
	}
	if pod := resource.Value(t, "pod_cpu_usage_seconds_total", `pod="`+name+`"`); pod*1e9 < before {
		t.Errorf("the pod used %v s, one container of it %.0f ns", pod, before)
	}
	if resource.Value(t, "node_cpu_usage_seconds_total") <= 0 || resource.Value(t, "resource_scrape_error") != 0 {
		t.Error("the node has no usage, or a scrape failed")
	}
	mustBeNear(n, "cpu quota of burn", cadvisor.Value(t, "container_spec_cpu_quota", valuesOf("burn")...), 10000, 0)
	mustBeNear(n, "memory limit of hold", cadvisor.Value(t, "container_spec_memory_limit_bytes", valuesOf("hold")...),
		100*mega,
		0)
	mustBeNear(n, "periods of burn", cadvisor.Value(t, "container_cpu_cfs_periods_total", valuesOf("burn")...), 10000,
		9999)
	mustBeNear(n, "bytes on disk of write", cadvisor.Value(t, "container_fs_usage_bytes", valuesOf("write")...), 10*mega,
		2*mega)
	cadvisor.Value(t, "container_network_receive_bytes_total", `interface="eth0"`, `pod="`+name+`"`)
	cadvisor.Value(t, "container_memory_working_set_bytes", `id="/"`)

	n.WriteManifest("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec: {}\n")
	n.Await("the manifest error is counted", func() error {
		if got := n.Series("/metrics").Value(t, "podstead_manifest_faults", `source="file"`); got < 1 {
			return fmt.Errorf("%v manifest errors", got)
		}
		return nil
	})
	m := n.Series("/metrics")
	for metric, want := range map[string]float64{
		"kubelet_running_pods": 1, `kubelet_running_containers{container_state="running"}`: 3,
		`kubelet_started_containers_total{container_type="container"}`: 3,
		"kubelet_started_pods_total":                                   1, "kubelet_pod_start_duration_seconds_count": 1,
		`kubelet_desired_pods{static="true"}`:                               1,
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"}`: 1, `kubelet_node_name{node="` + n.Name + `"}`: 1,
		"podstead_pods_ready": 1,
	} {
		if got, ok := m[metric]; !ok || got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	good := m.Value(t, "podstead_manifest_last_good_timestamp_seconds", `source="file"`)
	if age := float64(time.Now().UnixMilli())/1000 - good; age <= 0 || age > 600 {
		t.Errorf("the last valid manifests are %v s old", age)
	}
	if m.Value(t, "kubelet_pod_worker_duration_seconds_count", `operation_type="create"`) != 1 ||
		m.Value(t, "process_resident_memory_bytes") < mega {
		t.Error("the worker has no syncs, or the process has too little memory")
	}
	n.RemoveManifest("broken.yaml")
	probes := n.Series("/metrics/probes")
	if got := probes.Value(t, "prober_probe_total", `container="burn"`, `probe_type="Readiness"`, `result="successful"`,
		`pod="`+name+`"`); got < 1 {
		t.Errorf("%v probes", got)
	}
}
