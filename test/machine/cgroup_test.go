package machine

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// cgroup returns the directory of the container's cgroup; its parent is that of the pod.
func cgroup(m *Machine, pod string) string {
	m.t.Helper()
	return "/sys/fs/cgroup" + m.Sh("cut -d: -f3 /proc/"+mainPid(m, pod)+"/cgroup")
}

func limits(text string) string { return ", resources: {" + text + "}" }

// Limits, resizes, OOM kills and statistics on the kernel's own cgroup v2, with both cgroup
// drivers.
func testCgroupV2(m *Machine) {
	testCgroups(m, "systemd")
	awaitInstances(m, nil, settle)
	m.Sh("sed -i 's/SystemdCgroup = true/SystemdCgroup = false/' /etc/containerd/config.toml && systemctl restart " +
		"containerd")
	testCgroups(m, "cgroupfs")
	awaitInstances(m, nil, settle)
	m.Sh("sed -i 's/SystemdCgroup = false/SystemdCgroup = true/' /etc/containerd/config.toml && systemctl restart " +
		"containerd")
}

func testCgroups(m *Machine, driver string) {
	t := m.t
	serviceWith(m, "--pod-max-pids 200 --system-reserved memory=256Mi")
	apply(m,
		testPod{name: "g", revision: "1", container: limits("limits: {cpu: 200m, memory: 64Mi}")},
		testPod{name: "b", revision: "1",
			container: limits("requests: {cpu: 100m, memory: 16Mi}, limits: {cpu: 300m, memory: 48Mi}")},
		testPod{name: "e", revision: "1"},
		testPod{name: "burn", revision: "1", script: "while :; do :; done", grace: 1,
			container: limits("limits: {cpu: 100m, memory: 16Mi}")},
	)
	uids := map[string]string{}
	for name, p := range awaitReady(m, settle, "g", "b", "e", "burn") {
		uids[name] = string(p.UID)
	}
	root, tiers := "/sys/fs/cgroup/podstead", map[string]string{"g": "", "b": "/burstable", "e": "/besteffort"}
	if driver == "systemd" {
		root, tiers = "/sys/fs/cgroup/podstead.slice",
			map[string]string{"g": "", "b": "/podstead-burstable.slice", "e": "/podstead-besteffort.slice"}
	}
	containers, pods := map[string]string{}, map[string]string{}
	for name, tier := range tiers {
		containers[name] = cgroup(m, name)
		pods[name] = containers[name][:strings.LastIndex(containers[name], "/")]
		if got := pods[name][:strings.LastIndex(pods[name], "/")]; got != root+tier {
			t.Errorf("%s is in a cgroup of %s, want %s", name, got, root+tier)
		}
		if uid := strings.ReplaceAll(pods[name], "_", "-"); !strings.Contains(uid, "pod"+uids[name]) {
			t.Errorf("the cgroup of %s is %s, want one of pod%s", name, pods[name], uids[name])
		}
	}
	total, err := strconv.ParseInt(m.Sh("awk '/MemTotal/ { print $2 }' /proc/meminfo"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	values := func() {
		t.Helper()
		mustHave(m, root+"/memory.max", fmt.Sprint(total<<10-256<<20))
		mustHave(m, root+tiers["b"]+"/cpu.weight", "4") // 100m
		mustHave(m, root+tiers["e"]+"/cpu.weight", "1")

		mustHave(m, pods["b"]+"/cpu.max", "30000 100000")
		mustHave(m, pods["b"]+"/cpu.weight", "4")
		mustHave(m, pods["b"]+"/memory.max", fmt.Sprint(48<<20))
		mustHave(m, pods["e"]+"/cpu.weight", "1")
		mustHave(m, pods["e"]+"/cpu.max", "max 100000")
		mustHave(m, pods["e"]+"/memory.max", "max")
		for name := range tiers {
			mustHave(m, pods[name]+"/pids.max", "200")
		}
		mustHave(m, containers["b"]+"/cpu.max", "30000 100000")
		mustHave(m, containers["b"]+"/cpu.weight", "4")
		mustHave(m, containers["b"]+"/memory.max", fmt.Sprint(48<<20))
	}
	guaranteed := func(cpu, weight string, memory int) {
		t.Helper()
		for _, dir := range []string{pods["g"], containers["g"]} {
			mustHave(m, dir+"/cpu.max", cpu)
			mustHave(m, dir+"/cpu.weight", weight)
			mustHave(m, dir+"/memory.max", fmt.Sprint(memory))
		}
	}
	values()
	guaranteed("20000 100000", "8", 64<<20)
	for name := range tiers {
		// All processes of a container end with the one that the kernel kills.
		mustHave(m, containers[name]+"/memory.oom.group", "1")
	}
	// The limit with swap is that without.
	mustHave(m, containers["b"]+"/memory.swap.max", "0")
	mustHave(m, containers["g"]+"/memory.swap.max", "0")
	// systemd writes the properties of its units again. runc's driver for systemd sets
	// memory.oom.group and memory.swap.max without it, so systemd resets these two.
	m.Sh("systemctl daemon-reload")
	values()
	guaranteed("20000 100000", "8", 64<<20)

	checkStats(m, uids["burn"])
	checkPressure(m)
	checkOOM(m)

	before := mainPid(m, "g")
	apply(m, testPod{name: "g", revision: "1", container: limits("limits: {cpu: 400m, memory: 96Mi}")})
	m.Await("the resize is in the kernel", settle, func() error {
		if got, err := m.Try("cat " + containers["g"] + "/memory.max"); err != nil || got != fmt.Sprint(96<<20) {
			return fmt.Errorf("memory.max is %s, %v", got, err)
		}
		if got, err := m.Try("cat " + pods["g"] + "/cpu.max " + containers["g"] + "/cpu.max"); err != nil ||
			got != "40000 100000\n40000 100000" {
			return fmt.Errorf("cpu.max is %q, %v", got, err)
		}
		return nil
	})
	guaranteed("40000 100000", "16", 96<<20)
	m.Sh("systemctl daemon-reload && systemctl restart podstead")
	awaitReady(m, settle, "g", "b", "e")
	guaranteed("40000 100000", "16", 96<<20)
	values()
	if after := mainPid(m, "g"); after != before {
		t.Errorf("the resize replaced process %s by %s", before, after)
	}
	m.Sh("rm /etc/pods/*.yaml")
	m.Await("no cgroup of a pod is left", settle, func() error {
		if left, err := m.Try("find " + root + " -type d -name '*pod*' | grep -e pod[0-9a-f] || true"); err != nil ||
			left != "" {
			return fmt.Errorf("%s, %v", left, err)
		}
		return nil
	})
}

// checkOOM checks that a container over its limit ends as a whole, and is reported.
func checkOOM(m *Machine) {
	m.t.Helper()
	apply(m, testPod{name: "oom", revision: "1", grace: 1, script: "sleep 2; tail /dev/zero & while :; do sleep 1; done",
		container: limits("limits: {memory: 32Mi}")})
	m.Await("the OOM kill is reported", settle, func() error {
		all, err := pods(m)
		if err != nil {
			return err
		}
		for _, c := range all["oom"].Status.ContainerStatuses {
			if last := c.LastTerminationState.Terminated; last != nil {
				if last.Reason != "OOMKilled" || last.ExitCode != 137 {
					m.t.Fatalf("the container ended with %q, %d, want OOMKilled, 137", last.Reason, last.ExitCode)
				}
				return nil
			}
		}
		return fmt.Errorf("%+v", all["oom"].Status.ContainerStatuses)
	})
	m.Await("the OOM kill is an event", settle, func() error {
		if out, err := m.Try("podstead get events"); err != nil || !strings.Contains(out, "OOMKilling") {
			return fmt.Errorf("%s, %v", out, err)
		}
		return nil
	})
	m.Sh("rm /etc/pods/oom.yaml")
}

// checkStats compares the statistics of a pod with the kernel's numbers before and after.
func checkStats(m *Machine, uid string) {
	m.t.Helper()
	dir := cgroup(m, "burn")
	usage := func() uint64 {
		m.t.Helper()
		n, err := strconv.ParseUint(m.Sh("awk '$1 == \"usage_usec\" { print $2 }' "+dir+"/cpu.stat"), 10, 64)
		if err != nil {
			m.t.Fatal(err)
		}
		return n * 1000
	}
	least := usage()
	m.Await("the statistics are current", settle, func() error {
		out, err := m.Try("curl -sS -m 30 --unix-socket /run/podstead/podstead.sock http://podstead/stats/summary")
		if err != nil {
			return err
		}
		var summary struct {
			Pods []struct {
				PodRef     struct{ UID string }
				Containers []struct {
					CPU    struct{ UsageCoreNanoSeconds uint64 }
					Memory struct{ WorkingSetBytes, RSSBytes uint64 }
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &summary); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		most := usage()
		for _, p := range summary.Pods {
			if p.PodRef.UID != uid || len(p.Containers) != 1 {
				continue
			}
			c := p.Containers[0]
			if c.CPU.UsageCoreNanoSeconds < least || c.CPU.UsageCoreNanoSeconds > most {
				return fmt.Errorf("CPU usage %d, the kernel had %d before and %d after", c.CPU.UsageCoreNanoSeconds, least, most)
			}
			if c.Memory.WorkingSetBytes == 0 || c.Memory.WorkingSetBytes > 16<<20 {
				return fmt.Errorf("working set %d, want up to the limit of 16 MiB", c.Memory.WorkingSetBytes)
			}
			return nil
		}
		return fmt.Errorf("no statistics of the pod %s: %s", uid, out)
	})
	// A tenth of a processor, by the kernel's clock.
	began, first := m.Sh("cut -d' ' -f1 /proc/uptime"), usage()
	time.Sleep(5 * time.Second)
	ended, last := m.Sh("cut -d' ' -f1 /proc/uptime"), usage()
	from, _ := strconv.ParseFloat(began, 64)
	to, _ := strconv.ParseFloat(ended, 64)
	if share := float64(last-first) / 1e9 / (to - from); share > 0.15 {
		m.t.Errorf("the container uses %.2f of a processor, its limit is 0.1", share)
	}
}

// checkPressure compares the pressure stall information of a container in the metrics with the
// kernel's before and after.
func checkPressure(m *Machine) {
	m.t.Helper()
	dir := cgroup(m, "burn")
	for _, resource := range []string{"cpu", "memory", "io"} {
		kernel := func() float64 {
			m.t.Helper()
			total, err := strconv.ParseFloat(m.Sh("sed -n 's/^some .*total=//p' "+dir+"/"+resource+".pressure"), 64)
			if err != nil {
				m.t.Fatal(err)
			}
			return total / 1e6
		}
		least := kernel()
		m.Await("the pressure is current", settle, func() error {
			out, err := m.Try("curl -sS -m 30 --unix-socket /run/podstead/podstead.sock http://podstead/metrics/cadvisor | " +
				"grep '^container_pressure_" + resource + "_waiting_seconds_total{.*container=\"main\".*pod=\"burn-machine\"'")
			if err != nil {
				return err
			}
			most := kernel()
			fields := strings.Fields(out[strings.LastIndex(out, "}")+1:])
			if len(fields) == 0 {
				return fmt.Errorf("no value: %s", out)
			}
			value, err := strconv.ParseFloat(fields[0], 64)
			// The value is printed with a limited precision.
			if err != nil || value < least-1e-6 || value > most+1e-6 {
				return fmt.Errorf("%s, the kernel had %f before and %f after", out, least, most)
			}
			return nil
		})
	}
}
