package machine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// orderedPods is the number of pods of TestStartOrder.
const orderedPods = 20

// dependencies returns the pods that pod i depends on: a tree whose parents have two children each,
// and one more pod of an earlier level for every third one.
func dependencies(i int) (names []int) {
	if i == 0 {
		return nil
	}
	names = append(names, (i-1)/2)
	if other := i / 3; i%3 == 0 && other != (i-1)/2 {
		names = append(names, other)
	}
	return names
}

// orderedPod returns pod i of the graph. Its container logs to /root/log/order when it starts, when
// it is about to be Ready, when it is to end and when it ends, with the ID of the boot and the
// seconds since that. It is Ready 2 s after its start, when its server listens.
func orderedPod(i int) testPod {
	name := fmt.Sprintf("o%d", i)
	log := func(what string) string {
		return "echo " + what + " " + name +
			" $(cat /proc/sys/kernel/random/boot_id) $(cut -d\" \" -f1 /proc/uptime) >>/log/order; "
	}
	depends := ""
	for n, d := range dependencies(i) {
		if n > 0 {
			depends += ", "
		}
		depends += fmt.Sprintf("o%d", d)
	}
	p := testPod{
		name: name, revision: "1", grace: 60, spec: logVolume,
		script: "trap '" + log("term") + "sleep 1; " + log("end") + "sync; exit 0' TERM; " + log("start") + "sleep 2; " +
			log("up") + "httpd -p 80; while :; do sleep 1000 & wait; done",
		container: logMount + ", startupProbe: {tcpSocket: {port: 80}, periodSeconds: 1, timeoutSeconds: 60, " +
			"failureThreshold: 600}",
	}
	if depends != "" {
		p.annotations = fmt.Sprintf("podstead.io/depends-on: %q", depends)
	}
	return p
}

// A graph of 20 pods: each starts when those that it depends on are Ready, once, although the daemon
// is killed in between; but for containers that the runtime is starting at that moment, because
// containerd ends the process of a start whose caller is gone. So it is after a reboot, in which each ends before those
// that it depends on, and after a power cut amid the starts.
func TestStartOrder(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	testStartOrder(m)
}

func testStartOrder(m *Machine) {
	t := m.t
	// All ends of a reboot have their time.
	serviceWith(m, "--shutdown-grace-period 10m")
	m.Sh("mkdir -p /root/ordered")
	var names []string
	want := map[string]string{}
	for i := range orderedPods {
		p := orderedPod(i)
		m.Write("/root/ordered/"+p.name+".yaml", p.manifest())
		names = append(names, p.name)
		want[p.name] = p.revision
	}
	kill := func(after int) {
		t.Helper()
		m.Await(fmt.Sprintf("%d pods have started", after), bootTimeout, func() error {
			if n := len(orderLog(m)["start"]); n < after {
				return fmt.Errorf("%d have", n)
			}
			return nil
		})
		m.Sh("kill -9 $(systemctl show -P MainPID podstead)")
	}
	all := func(what string) {
		t.Helper()
		awaitInstances(m, want, bootTimeout)
		reported := awaitReady(m, bootTimeout, names...)
		log := orderLog(m)
		t.Logf("%s: %d pods started between %.1f s and %.1f s after the kernel", what, orderedPods, earliest(log["start"]),
			latest(log["start"]))
		checkStartOrder(m, log, reported)
	}

	m.Sh("cp /root/ordered/*.yaml /etc/pods/ && sync")
	kill(3)
	kill(9)
	all("first start, daemon killed twice")

	boot := strings.TrimSpace(m.Sh("cat /proc/sys/kernel/random/boot_id"))
	m.Reboot()
	checkEndOrder(m, orderLogOf(m, boot))
	kill(6)
	all("reboot, daemon killed once")

	m.PowerCut()
	m.Start()
	m.Await("some pods have started", bootTimeout, func() error {
		if n := len(orderLog(m)["start"]); n < 4 {
			return fmt.Errorf("%d have", n)
		}
		return nil
	})
	m.PowerCut()
	m.Start()
	all("power cut amid the starts")
}

// orderLog returns what the pods have logged in this boot: the times, in seconds since the boot, by
// what happened and by pod.
func orderLog(m *Machine) map[string]map[string][]float64 {
	m.t.Helper()
	return orderLogOf(m, strings.TrimSpace(m.Sh("cat /proc/sys/kernel/random/boot_id")))
}

func orderLogOf(m *Machine, boot string) map[string]map[string][]float64 {
	m.t.Helper()
	log := map[string]map[string][]float64{}
	// A power cut can leave NUL bytes.
	for line := range strings.Lines(m.Sh("mkdir -p /root/log; touch /root/log/order; tr -d '\\0' </root/log/order")) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[2] != boot {
			continue
		}
		at, err := strconv.ParseFloat(fields[3], 64)
		if err != nil {
			m.t.Fatalf("%q: %v", line, err)
		}
		if log[fields[0]] == nil {
			log[fields[0]] = map[string][]float64{}
		}
		log[fields[0]][fields[1]] = append(log[fields[0]][fields[1]], at)
	}
	return log
}

func earliest(times map[string][]float64) float64 {
	first := -1.0
	for _, list := range times {
		if t := slices.Min(list); first < 0 || t < first {
			first = t
		}
	}
	return first
}

func latest(times map[string][]float64) (last float64) {
	for _, list := range times {
		last = max(last, slices.Max(list))
	}
	return last
}

// checkStartOrder checks that each pod has started once, and not before the pods that it depends on
// were up. One whose start the runtime ended, as it reports, may have started twice: whether its
// script had begun is chance.
func checkStartOrder(m *Machine, log map[string]map[string][]float64, reported map[string]v1.Pod) {
	m.t.Helper()
	for i := range orderedPods {
		name := fmt.Sprintf("o%d", i)
		starts := log["start"][name]
		most := 1
		if last := reported[name].Status.ContainerStatuses[0].LastTerminationState.Terminated; last != nil &&
			last.Reason == "StartError" {
			most = 2
		}
		if len(starts) == 0 || len(starts) > most {
			m.t.Errorf("%s started %d times in this boot, at %v s:\n%s", name, len(starts), starts,
				m.Sh("journalctl -b --no-pager -o short-monotonic | grep -e "+name+"-machine -e podstead.service: || true"))
			continue
		}
		for _, d := range dependencies(i) {
			other := fmt.Sprintf("o%d", d)
			if up := log["up"][other]; len(up) == 0 || starts[0] < up[0] {
				m.t.Errorf("%s started at %v s, and %s, which it depends on, was up at %v s", name, starts[0], other, up)
			}
		}
	}
}

// checkEndOrder checks that each pod was stopped after those that depend on it had ended.
func checkEndOrder(m *Machine, log map[string]map[string][]float64) {
	m.t.Helper()
	for i := range orderedPods {
		name := fmt.Sprintf("o%d", i)
		ends := log["end"][name]
		if len(ends) != 1 {
			m.t.Errorf("%s ended %d times, want one", name, len(ends))
			continue
		}
		for _, d := range dependencies(i) {
			other := fmt.Sprintf("o%d", d)
			if term := log["term"][other]; len(term) != 1 || term[0] < ends[0] {
				m.t.Errorf("%s ended at %v s, and %s, which it depends on, was stopped at %v s", name, ends[0], other, term)
			}
		}
	}
}
