package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podstead/podstead/test/testbed"
)

// figure is a part of a JSON response.
type figure struct{ value any }

// at follows names and indexes; a missing element is nil.
func (f figure) at(path ...any) figure {
	for _, step := range path {
		switch in := f.value.(type) {
		case map[string]any:
			name, _ := step.(string)
			f.value = in[name]
		case []any:
			f.value = findNamed(in, step)
		default:
			return figure{}
		}
	}
	return f
}

// findNamed returns the element of a list with this name or index.
func findNamed(list []any, step any) any {
	if i, ok := step.(int); ok && i < len(list) {
		return list[i]
	}
	for _, e := range list {
		in := figure{e}
		if in.at("name").value == step || in.at("podRef", "name").value == step {
			return e
		}
	}
	return nil
}

// number returns the value, or -1 if it is missing.
func (f figure) number() float64 {
	if n, ok := f.value.(float64); ok {
		return n
	}
	return -1
}

// figures reads the JSON that the daemon serves at a path.
func (n *node) figures(path string) figure {
	n.t.Helper()
	body, err := n.Get(n.t.Context(), path)
	if err != nil {
		n.t.Fatal(err)
	}
	var f figure
	if err := json.Unmarshal(body, &f.value); err != nil {
		n.t.Fatalf("%s: %v\n%s", path, err, body)
	}
	return f
}

// cgroupUsage returns the kernel's accounting of a container: CPU in nanoseconds, working set
// and usage in bytes.
func (n *node) cgroupUsage(pid int) (cpu, working, usage float64) {
	n.t.Helper()
	read := func(controller, file string) string {
		path, err := cgroupPath(pid, controller)
		if err != nil {
			n.t.Fatal(err)
		}
		text, err := cgroupValue(controller, path, file)
		if err != nil {
			n.t.Fatal(err)
		}
		return text
	}
	number := func(text string) float64 {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			n.t.Fatal(err)
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
func (n *node) mustBeNear(what string, got, want, margin float64) {
	n.t.Helper()
	if got < want-margin || got > want+margin {
		n.t.Errorf("%s is %.0f, want %.0f +- %.0f", what, got, want, margin)
	}
}

const mega = 1 << 20

// The usage of a pod with a known load is reported by every endpoint and agrees with the
// kernel's accounting.
func TestUsage(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		if !n.needs("cpu", "memory") {
			return
		}
		n.Args = []string{"--volume-stats-agg-period", "1s"}
		n.writeManifest("load.yaml", `apiVersion: v1
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
		n.start()
		n.awaitReady("load")
		burn, hold := n.awaitContainer("load", "burn"), n.awaitContainer("load", "hold")
		n.await("memory is used", func() error {
			if _, working, _ := n.cgroupUsage(hold.Pid); working < 32*mega {
				return fmt.Errorf("working set is %.0f", working)
			}
			return nil
		})

		// How much CPU it gets depends on the load of the machine. The kernel's accounting of
		// the same period is the reference, which a figure matches sooner or later even on a
		// busy machine.
		began := time.Now()
		start, _, _ := n.cgroupUsage(burn.Pid)
		cores := func(what string, figure func() float64) {
			t.Helper()
			n.await("the CPU usage of burn in "+what, func() error {
				got := figure()
				now, _, _ := n.cgroupUsage(burn.Pid)
				want := (now - start) / float64(time.Since(began).Nanoseconds())
				began, start = time.Now(), now
				if got >= want*0.6 && got <= want*1.4 && got <= 0.12 && got > 0 {
					return nil
				}
				time.Sleep(1100 * time.Millisecond) // cached figures must expire first
				return fmt.Errorf("%.3f cores, %.3f according to the kernel, with a limit of 0.1", got, want)
			})
		}

		// The first response already has a rate, which takes a second to measure.
		name := n.PodName("load")
		only := n.figures("/stats/summary?only_cpu_and_memory=true")
		if only.at("pods", name, "containers", "burn", "cpu", "usageNanoCores").number() <= 0 {
			t.Error("the first summary has no rate")
		}
		inSummary := func() float64 {
			return n.figures("/stats/summary").at("pods", name, "containers", "burn", "cpu", "usageNanoCores").number() / 1e9
		}
		cores("the summary", inSummary)
		if only.at("node", "fs").value != nil || only.at("pods", name, "volume").value != nil {
			t.Error("only CPU and memory were requested")
		}

		// The figure is between the kernel's values before and after.
		_, working, usage := n.cgroupUsage(hold.Pid)
		var s, pod figure
		n.await("a new measurement", func() error {
			time.Sleep(1100 * time.Millisecond) // cached figures must expire first
			before, _, _ := n.cgroupUsage(burn.Pid)
			_, working, usage = n.cgroupUsage(hold.Pid)
			s = n.figures("/stats/summary")
			after, _, _ := n.cgroupUsage(burn.Pid)
			pod = s.at("pods", name)
			if got := pod.at("containers", "burn", "cpu", "usageCoreNanoSeconds").number(); got < before || got > after {
				return fmt.Errorf("burn used %.0f ns, the kernel had %.0f before and %.0f after", got, before, after)
			}
			return nil
		})
		if whole, part := pod.at("cpu", "usageCoreNanoSeconds").number(), pod.at("containers", "burn", "cpu", "usageCoreNanoSeconds").number(); whole < part {
			t.Errorf("the pod used %.0f ns, one container of it %.0f", whole, part)
		}
		n.mustBeNear("working set of hold", pod.at("containers", "hold", "memory", "workingSetBytes").number(), working, mega)
		n.mustBeNear("usage of hold", pod.at("containers", "hold", "memory", "usageBytes").number(), usage, mega)
		n.mustBeNear("available of hold", pod.at("containers", "hold", "memory", "availableBytes").number(), 100*mega-working, mega)
		if got := pod.at("memory", "workingSetBytes").number(); got < working || got > working+64*mega {
			t.Errorf("working set of the pod is %.0f, of one container %.0f", got, working)
		}
		switch got := pod.at("process_stats", "process_count").number(); {
		case !hasController("pids"):
			if got >= 0 {
				t.Errorf("the pod has %v processes, which nothing counts here", got)
			}
		case got < 6:
			t.Errorf("the pod has %v processes; pause, burn, three of hold and write are six", got)
		}
		if got := pod.at("network", "name").value; got != "eth0" {
			t.Errorf("the first interface is %v", got)
		}
		if fs := s.at("node", "fs"); fs.at("capacityBytes").number() <= fs.at("availableBytes").number() || fs.at("inodesUsed").number() <= 0 {
			t.Errorf("file system of the node: %v", fs)
		}
		n.mustBeNear("capacity of the volume in memory", pod.at("volume", "mem", "capacityBytes").number(), 8*mega, 0)

		// The runtime measures its file systems every ten seconds.
		n.await("disks are measured", func() error {
			all := n.figures("/stats/summary")
			pod := all.at("pods", name)
			if used := all.at("node", "runtime", "imageFs", "usedBytes").number(); used < mega/2 {
				return fmt.Errorf("images take %.0f", used)
			}
			write := pod.at("containers", "write")
			rootfs, logs, scratch := write.at("rootfs", "usedBytes").number(), write.at("logs", "usedBytes").number(), pod.at("volume", "scratch", "usedBytes").number()
			if rootfs < 8*mega || rootfs > 9*mega || logs < 1.3e6 || logs > 2e6 || scratch < 4*mega || scratch > 4.5*mega {
				return fmt.Errorf("root file system %.0f, logs %.0f, emptyDir %.0f", rootfs, logs, scratch)
			}
			if sum := pod.at("ephemeral-storage", "usedBytes").number(); sum < rootfs+logs+scratch || sum > rootfs+logs+scratch+mega {
				return fmt.Errorf("all together %.0f", sum)
			}
			return nil
		})

		n.checkScrapes(name, burn, hold)

		// The same through the API of kubectl top, and through podstead's own API.
		k := newKubectl(n)
		_, working, _ = n.cgroupUsage(hold.Pid)
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
		top := k.must([]string{"CPU(cores)", "MEMORY(bytes)"}, "top", "pods", "-A")
		_, mi := cells(top, name)
		if mi*mega < working-2*mega || mi*mega > working+64*mega {
			t.Errorf("kubectl top pods: %.0f Mi, one container of it %.0f", mi, working/mega)
		}
		var containers string
		cores("kubectl top --containers", func() float64 {
			containers = k.must([]string{"POD", "NAME"}, "top", "pod", name, "--containers")
			milli, _ := cells(containers, "burn")
			return milli / 1000
		})
		_, mi = cells(containers, "hold")
		n.mustBeNear("kubectl top --containers: memory", mi*mega, working, 2*mega)
		if out := k.must(nil, "top", "pods", "-l", "app=other"); strings.Contains(out, name) {
			t.Errorf("the selector matched too many pods: %s", out)
		}
		k.must([]string{n.Name, "%"}, "top", "nodes")
		cores("podstead top", func() float64 {
			out, err := n.Command("top", "pods", "load", "--containers", "--sort-by", "cpu", "--api-socket", n.Socket()).CombinedOutput()
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
func (n *node) checkScrapes(name string, burn, hold instance) {
	t := n.t
	t.Helper()
	var resource, cadvisor series
	of := func(container string) []string {
		return []string{`container="` + container + `"`, `namespace="default"`, `pod="` + name + `"`}
	}
	var before, working float64
	n.await("new measurements", func() error {
		time.Sleep(1100 * time.Millisecond) // cached figures must expire first
		before, _, _ = n.cgroupUsage(burn.Pid)
		_, working, _ = n.cgroupUsage(hold.Pid)
		resource, cadvisor = n.series("/metrics/resource"), n.series("/metrics/cadvisor")
		after, _, _ := n.cgroupUsage(burn.Pid)
		for where, s := range map[string]series{"resource": resource, "cadvisor": cadvisor} {
			if got := s.value(t, "container_cpu_usage_seconds_total", of("burn")...) * 1e9; got < before-1 || got > after+1 {
				return fmt.Errorf("%s: burn used %.0f ns, the kernel had %.0f before and %.0f after", where, got, before, after)
			}
		}
		return nil
	})
	for where, s := range map[string]series{"resource": resource, "cadvisor": cadvisor} {
		n.mustBeNear(where+": working set of hold", s.value(t, "container_memory_working_set_bytes", of("hold")...), working, mega)
	}
	if pod := resource.value(t, "pod_cpu_usage_seconds_total", `pod="`+name+`"`); pod*1e9 < before {
		t.Errorf("the pod used %v s, one container of it %.0f ns", pod, before)
	}
	if resource.value(t, "node_cpu_usage_seconds_total") <= 0 || resource.value(t, "resource_scrape_error") != 0 {
		t.Error("the node has no usage, or a scrape failed")
	}
	n.mustBeNear("cpu quota of burn", cadvisor.value(t, "container_spec_cpu_quota", of("burn")...), 10000, 0)
	n.mustBeNear("memory limit of hold", cadvisor.value(t, "container_spec_memory_limit_bytes", of("hold")...), 100*mega, 0)
	n.mustBeNear("periods of burn", cadvisor.value(t, "container_cpu_cfs_periods_total", of("burn")...), 10000, 9999)
	n.mustBeNear("bytes on disk of write", cadvisor.value(t, "container_fs_usage_bytes", of("write")...), 10*mega, 2*mega)
	cadvisor.value(t, "container_network_receive_bytes_total", `interface="eth0"`, `pod="`+name+`"`)
	cadvisor.value(t, "container_memory_working_set_bytes", `id="/"`)

	n.writeManifest("broken.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec: {}\n")
	n.await("the manifest error is counted", func() error {
		if got := n.series("/metrics").value(t, "podstead_manifest_faults", `source="file"`); got < 1 {
			return fmt.Errorf("%v manifest errors", got)
		}
		return nil
	})
	m := n.series("/metrics")
	for metric, want := range map[string]float64{
		"kubelet_running_pods": 1, `kubelet_running_containers{container_state="running"}`: 3, `kubelet_started_containers_total{container_type="container"}`: 3,
		"kubelet_started_pods_total": 1, "kubelet_pod_start_duration_seconds_count": 1, `kubelet_desired_pods{static="true"}`: 1,
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"}`: 1, `kubelet_node_name{node="` + n.Name + `"}`: 1, "podstead_pods_ready": 1,
	} {
		if got, ok := m[metric]; !ok || got != want {
			t.Errorf("%s is %v, want %v", metric, got, want)
		}
	}
	good := m.value(t, "podstead_manifest_last_good_timestamp_seconds", `source="file"`)
	if age := float64(time.Now().UnixMilli())/1000 - good; age <= 0 || age > 600 {
		t.Errorf("the last valid manifests are %v s old", age)
	}
	if m.value(t, "kubelet_pod_worker_duration_seconds_count", `operation_type="create"`) != 1 || m.value(t, "process_resident_memory_bytes") < mega {
		t.Error("the worker has no syncs, or the process has too little memory")
	}
	n.removeManifest("broken.yaml")
	probes := n.series("/metrics/probes")
	if got := probes.value(t, "prober_probe_total", `container="burn"`, `probe_type="Readiness"`, `result="successful"`, `pod="`+name+`"`); got < 1 {
		t.Errorf("%v probes", got)
	}
}

// series holds the values of a scrape by name and labels.
type series map[string]float64

// series scrapes the metrics that the daemon serves at a path.
func (n *node) series(path string) series {
	n.t.Helper()
	body, err := n.Get(n.t.Context(), path)
	if err != nil {
		n.t.Fatal(err)
	}
	s := series{}
	for line := range strings.Lines(string(body)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if ok {
			name += "}"
		} else {
			name, rest, _ = strings.Cut(name, " ")
		}
		// A timestamp may follow the value.
		text, _, _ := strings.Cut(rest, " ")
		if v, err := strconv.ParseFloat(text, 64); err == nil && !strings.HasPrefix(line, "#") {
			s[name] = v
		}
	}
	return s
}

// value returns the value of the only series with this name and labels.
func (s series) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	found, value := 0, -1.0
	for key, v := range s {
		own, rest, _ := strings.Cut(key, "{")
		has := own == name
		for _, label := range labels {
			has = has && strings.Contains(rest, label)
		}
		if has {
			found, value = found+1, v
		}
	}
	if found != 1 {
		t.Errorf("%d series %s with %q", found, name, labels)
	}
	return value
}
