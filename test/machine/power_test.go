package machine

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	rounds = flag.Int("rounds", 10, "the number of power cuts of TestPowerCuts")
	cutFor = flag.Duration("cut-for", 0, "the time after which TestPowerCuts cuts the power no more, if not zero")
)

// churnScript changes manifests, objects, images and containers until the power is cut. $1 is a
// number that no earlier round had. Its files are written like those of users: most atomically,
// some in place, so that a cut leaves a part of them.
const churnScript = `
put() { sed "s/REVISION/$2/g" "/root/churn/$1" >"/etc/pods/.$1.tmp" && sync "/etc/pods/.$1.tmp" && mv "/etc/pods/.$1.tmp" "/etc/pods/$1"; }
edit() { for i in $(seq 999); do put edit.yaml "$1$i"; sleep 2; done; }
in_place() { for i in $(seq 999); do sed "s/REVISION/$1$i/g" /root/churn/inplace.yaml >/etc/pods/inplace.yaml; sleep 3; done; }
faulty() {
	for i in $(seq 999); do
		put faulty.yaml "$1$i"
		podstead wait faulty --for=revision --timeout 60s && sleep 1 || continue
		printf '# last good: %s\nspec: [\n' "$1$i" >/etc/pods/faulty.yaml
		sleep 4
	done
}
come_and_go() { for i in $(seq 999); do put come.yaml "$1$i"; sleep 5; rm /etc/pods/come.yaml; sleep 1; done; }
killed() { while :; do pkill -9 -f 'mar[k]=killed='; sleep 3; done; }
objects() { for i in $(seq 999); do put objects.yaml "$1$i"; sleep 1; done; }
images() { for i in $(seq 999); do podstead images load --name "registry.test/churn:$1$i" /root/busybox.tar && podstead images prune; done; }
for job in JOBS; do "$job" "$1" & done
wait
`

// churn is what happens until the power is cut.
type churn struct {
	// pods are those that the jobs change, and those that they leave alone.
	pods []testPod
	// jobs are functions of churnScript.
	jobs string
	// longest is the time before a cut at most; it is at least 3 s.
	longest time.Duration
}

const churnRevision = "REVISION"

// fullChurn changes everything that a manifest, an object, an image and a container can be. A part of
// its pods has the network of the host, because the CNI plugins take most of the time of a start.
var fullChurn = churn{
	pods: append([]testPod{
		{name: "config", revision: "0", spec: ", hostNetwork: true, volumes: [{name: config, configMap: {name: churn}}]",
			container: ", volumeMounts: [{name: config, mountPath: /config}]"},
		{name: "killed", revision: "0", spec: ", hostNetwork: true"},
		{name: "crash", revision: "0", script: "exit 1", spec: ", hostNetwork: true"},
		{name: "come", revision: churnRevision}, {name: "inplace", revision: churnRevision},
	}, quickChurn.pods...),
	jobs:    quickChurn.jobs + " in_place come_and_go killed",
	longest: 10 * time.Second,
}

// quickChurn is the part of it for a machine whose pods have to start again within a minute.
var quickChurn = churn{
	pods: []testPod{
		{name: "stable", revision: "0"},
		{name: "edit", revision: churnRevision}, {name: "faulty", revision: churnRevision},
	},
	jobs:    "edit faulty objects images",
	longest: 10 * time.Second,
}

// manifestEnd is the last line of each manifest, so that a part of one is recognized.
const manifestEnd = "# end\n"

const churnObjects = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: churn}\ndata: {value: \"REVISION\"}\n" +
	manifestEnd

// Power cuts amid changes of everything. After each boot every good manifest runs with the
// content that is on the disk, a broken one with its last good content, nothing runs twice, and
// what the node keeps does not grow with the number of cuts.
func TestPowerCuts(t *testing.T) {
	m := newInstalled(t)
	m.Start()
	var deadline time.Time
	if *cutFor > 0 {
		deadline = time.Now().Add(*cutFor)
	}
	testPowerCuts(m, fullChurn, *rounds, deadline)
}

// testPowerCuts cuts the power n times, or less often if the deadline passes meanwhile. No deadline
// is zero.
func testPowerCuts(m *Machine, c churn, n int, deadline time.Time) {
	t := m.t
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("%d rounds with seed %d", n, seed)

	m.Write("/root/churn.sh", strings.Replace(churnScript, "JOBS", c.jobs, 1))
	m.Write("/root/churn/objects.yaml", churnObjects)
	for _, p := range c.pods {
		m.Write("/root/churn/"+p.name+".yaml", p.manifest()+manifestEnd)
	}
	m.Sh("for f in /root/churn/*.yaml; do sed s/REVISION/0/g $f >/etc/pods/$(basename $f); done; sync")
	awaitManifests(m)
	first := keptByNode(m)
	t.Logf("before: %v", first)
	for round := range n {
		if round > 0 && !deadline.IsZero() && time.Now().After(deadline) {
			t.Logf("%d of %d rounds: this host is too slow for more", round, n)
			break
		}
		go func() {
			// It runs until the power is cut.
			_, _ = m.Run(context.Background(), "bash", "/root/churn.sh", strconv.Itoa(round+1)+"000")
		}()
		churned := 3*time.Second + time.Duration(random.Int64N(int64(c.longest-3*time.Second)))
		time.Sleep(churned)
		cut, used := time.Now(), m.CPUTime()
		m.PowerCut()
		m.Start()
		booted := m.CPUTime()
		want := awaitManifests(m)
		t.Logf("round %d at %s, after %v of churn, recovered in %v (%v of CPU, %v of it until systemd ran): runs %v", round+1,
			time.Now().Format(time.TimeOnly),
			churned.Round(time.Second), time.Since(cut).Round(time.Second), (m.CPUTime() - used).Round(time.Second),
			(booted - used).Round(time.Second), want)
		if t.Failed() {
			return
		}
		if (round+1)%10 == 0 {
			awaitNoGrowth(m, c, first)
		}
	}
	awaitNoGrowth(m, c, first)
}

// awaitNoGrowth waits until the node keeps no more than at first. Each pod may leave something that the
// next cleanup removes. Over many rounds, growth in each would be more.
func awaitNoGrowth(m *Machine, c churn, first map[string]int) {
	m.t.Helper()
	m.Await("the node keeps no more than before", settle, func() error {
		now := keptByNode(m)
		for what, count := range now {
			if slack := 2 * len(c.pods) * max(1, perPod[what]); count > first[what]+slack {
				return fmt.Errorf("%s grew from %d to %d", what, first[what], count)
			}
		}
		m.t.Logf("kept: %v", now)
		return nil
	})
}

// awaitManifests waits until what runs is what the files on the disk say, and returns that.
func awaitManifests(m *Machine) map[string]string {
	m.t.Helper()
	files := map[string]string{}
	for _, part := range strings.Split("\n"+m.Sh("tail -n +1 /etc/pods/*.yaml"), "\n==> /etc/pods/")[1:] {
		name, text, _ := strings.Cut(part, ".yaml <==\n")
		files[name] = strings.TrimRight(text, "\n") + "\n"
	}
	want, faulty := map[string]string{}, []string{}
	for name, text := range files {
		revision := regexp.MustCompile("mark=" + name + "=([0-9]+)").FindStringSubmatch(text)
		good := regexp.MustCompile("# last good: ([0-9]+)\n").FindStringSubmatch(text)
		switch {
		case name == "objects" || name == "crash":
		case strings.HasSuffix(text, "\n"+manifestEnd) && revision != nil:
			want[name] = revision[1]
		case good != nil:
			want[name] = good[1]
			faulty = append(faulty, name)
		default:
			want[name] = anyRevision
			faulty = append(faulty, name)
		}
	}
	m.Await("what the manifests say runs", 2*settle, func() error {
		got, err := instances(m)
		if err != nil {
			return err
		}
		delete(got, "crash") // it runs for a moment, again and again
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if runs := got[name]; len(runs) != 1 || want[name] != anyRevision && runs[0] != want[name] {
				return fmt.Errorf("%s runs with the revisions %q, want %q", name, runs, want[name])
			}
			delete(got, name)
		}
		if len(got) > 0 {
			return fmt.Errorf("these run without a manifest: %q", got)
		}
		return nil
	})
	reported := awaitReady(m, settle, slices.Sorted(maps.Keys(want))...)
	for name, p := range reported {
		if _, ok := files[name]; !ok {
			m.Await("a pod without a manifest is gone", settle, func() error {
				all, err := pods(m)
				if left, ok := all[name]; err == nil && ok {
					err = fmt.Errorf("%s: %s %s %s", name, left.Status.Phase, left.Status.Reason, left.Status.Message)
				}
				return err
			})
		}
		if p.Labels["revision"] != want[name] && want[name] != "" && want[name] != anyRevision {
			m.t.Errorf("%s is reported with revision %q, and runs with %q", name, p.Labels["revision"], want[name])
		}
	}
	for _, name := range faulty {
		m.Await("the fault is shown", settle, func() error {
			if faults, err := m.agent("get", daemonSocket, "/podstead/v1/manifests"); err != nil ||
				!hasFault(faults, "/etc/pods/"+name+".yaml") {
				return fmt.Errorf("%s: %v\n%s\n%s", name, err, faults, files[name])
			}
			return nil
		})
	}
	if value := regexp.MustCompile(`value: "([0-9]+)"`).FindStringSubmatch(files["objects"]); value != nil &&
		want["config"] != "" {
		m.Await("the volume has the ConfigMap's content", settle, func() error {
			if got, err := m.agent("read", "config", "/config/value"); err != nil || got != value[1] {
				return fmt.Errorf("%q, %v, want %s", got, err, value[1])
			}
			return nil
		})
	}
	// On a host that does much other work, the daemon or what it waits for can exceed a limit of
	// systemd.
	if n := m.Sh("systemctl show -P NRestarts podstead"); n != "0" &&
		!strings.Contains(m.Journal(), "podstead.service: Watchdog timeout") &&
		!strings.Contains(m.Journal(), "podstead.service: start operation timed out") {
		m.t.Errorf("the daemon was restarted %s times since the boot", n)
	}
	return want
}

// hasFault reports whether the daemon's answer has a fault of this manifest, which `podstead get pods`
// prints.
func hasFault(manifests, file string) bool {
	var sources []struct {
		Units []struct{ Faults []string }
	}
	if json.Unmarshal([]byte(manifests), &sources) != nil {
		return false
	}
	for _, source := range sources {
		for _, unit := range source.Units {
			if slices.ContainsFunc(unit.Faults, func(fault string) bool { return strings.HasPrefix(fault, file) }) {
				return true
			}
		}
	}
	return false
}

// anyRevision is the revision of a manifest of which a power cut left only a part.
const anyRevision = "any"

// keptCounts are commands that count what the node keeps.
var keptCounts = map[string]string{
	"sandboxes":  `ctr -n k8s.io containers ls -q 'labels."io.cri-containerd.kind"==sandbox'`,
	"containers": `ctr -n k8s.io containers ls -q 'labels."io.cri-containerd.kind"==container'`,
	"snapshots":  `ctr -n k8s.io snapshots ls | tail -n +2`,
	// A cut amid a pull or load leaves one of containerd's, which the next start removes.
	"leases":    `ctr -n k8s.io leases ls | tail -n +2`,
	"mounts":    `cat /proc/mounts`,
	"cgroups":   `find /sys/fs/cgroup/podstead.slice -type d`,
	"addresses": `find /var/lib/cni/networks -name '10.*'`,
	"results":   `find /var/lib/cni/results -type f`,
	"pod dirs":  `ls /var/lib/podstead/pods`,
	"records":   `ls /var/lib/podstead/records`,
	"logs":      `ls /var/log/pods`,
	"log links": `ls /var/log/containers`,
}

// perPod is how many of a kind one pod has, if more than one.
var perPod = map[string]int{"mounts": 6, "cgroups": 3, "snapshots": 2, "containers": 2}

func keptByNode(m *Machine) map[string]int {
	m.t.Helper()
	script := ""
	for what, command := range keptCounts {
		script += "echo \"" + what + ":$({ " + command + "; } | wc -l)\"\n"
	}
	counts := map[string]int{}
	for line := range strings.Lines(m.Sh(script)) {
		what, count, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			m.t.Fatal(err)
		}
		counts[what] = n
	}
	if len(counts) != len(keptCounts) || counts["sandboxes"] == 0 {
		m.t.Fatalf("counted %v: a command failed", counts)
	}
	return counts
}
