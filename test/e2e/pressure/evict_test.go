package pressure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// setMemoryLimit puts the node's pods below a cgroup with a memory limit, as on a node that
// gives pods a slice of the machine. It returns the directory of the cgroup.
func setMemoryLimit(n *harness.Node, memory int64) (directory string) {
	n.T.Helper()
	at := n.CgroupRoot() + "-memory"
	directory, err := harness.ControllerPath("memory", at)
	if err != nil {
		n.T.Fatal(err)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		n.T.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "memory.limit_in_bytes"), []byte(strconv.FormatInt(memory, 10)),
		0); err != nil {
		n.T.Fatal(err)
	}
	n.Args = append(n.Args, "--cgroup-root", at+"/podstead")
	return directory
}

// conditionOf returns a condition of the node as the Kubernetes API reports it.
func conditionOf(n *harness.Node, c v1.NodeConditionType) (v1.NodeCondition, error) {
	body, err := n.Get(n.T.Context(), "/api/v1/nodes/"+n.Name)
	if err != nil {
		return v1.NodeCondition{}, err
	}
	var node v1.Node
	if err := json.Unmarshal(body, &node); err != nil {
		return v1.NodeCondition{}, err
	}
	i := slices.IndexFunc(node.Status.Conditions, func(o v1.NodeCondition) bool { return o.Type == c })
	if i < 0 {
		return v1.NodeCondition{}, fmt.Errorf("the node has no %s", c)
	}
	return node.Status.Conditions[i], nil
}

func awaitCondition(n *harness.Node, c v1.NodeConditionType, want v1.ConditionStatus) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%s is %s", c, want), func() error {
		got, err := conditionOf(n, c)
		if err == nil && got.Status != want {
			err = fmt.Errorf("it is %s since %s: %s", got.Status, got.LastTransitionTime, got.Message)
		}
		return err
	})
}

// evicted returns nil if a pod is Evicted with a message that contains the words.
func evicted(p v1.Pod, words ...string) error {
	target := slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
	})
	if p.Status.Phase != v1.PodFailed || p.Status.Reason != "Evicted" || !target {
		return fmt.Errorf("%s %s, target of a disruption: %v", p.Status.Phase, p.Status.Reason, target)
	}
	for _, w := range words {
		if !strings.Contains(p.Status.Message, w) {
			return fmt.Errorf("%q is not in %q", w, p.Status.Message)
		}
	}
	return nil
}

func awaitEvicted(n *harness.Node, name string, words ...string) {
	n.T.Helper()
	n.AwaitStatus(name, "is evicted", func(p v1.Pod) error { return evicted(p, words...) })
	n.Await("all its containers have terminated", func() error {
		left, err := n.Running(name)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%v runs", left)
		}
		return err
	})
	n.AwaitEvent(name, "Evicted", words...)
}

// oneShotPod returns a pod whose script runs only the first time the pod runs. The pod does
// nothing when it is started again. The directory must exist.
func oneShotPod(n *harness.Node, name, script string) string {
	mark := filepath.Join(n.Dir(), "marks")
	if err := os.MkdirAll(mark, 0o777); err != nil {
		n.T.Fatal(err)
	}
	return harness.ScriptPod(name, "one", 1,
		"[ -e /marks/"+name+" ] && exec sleep 100000; touch /marks/"+name+"; "+script+"; exec sleep 100000") +
		"      volumeMounts: [{name: marks, mountPath: /marks}, {name: data, mountPath: /data}]\n"
}

func volumeArgs(n *harness.Node, data string) string {
	return fmt.Sprintf("  volumes: [{name: marks, hostPath: {path: %s}}, {name: data, emptyDir: {%s}}]\n",
		filepath.Join(n.Dir(), "marks"), data)
}

// memoryLeakScript allocates 780 MiB of anonymous memory and then 1 MB/s: between the threshold and
// the limit there are two minutes, which a busy machine may need. The benchmark leaks 50 MB/s.
const memoryLeakScript = "for i in 1 2 3 4; do (head -c 205000000 /dev/zero; sleep 100000) | tail -c 206000000 " +
	">/dev/null & done; sleep 5; " +
	"while :; do (head -c 1000000 /dev/zero; sleep 100000) | tail -c 1100000 >/dev/null & sleep 1; done"

// mustBeSpared fails the test unless a pod was left alone. On a machine on which the termination of the
// evicted pod takes longer than the evictor waits, the next pod is evicted.
func mustBeSpared(n *harness.Node, name string, want harness.Instance) {
	n.T.Helper()
	log, err := os.ReadFile(n.Log())
	if err != nil {
		n.T.Fatal(err)
	}
	if strings.Contains(string(log), "Evicted pod is still terminating") {
		n.T.Logf("this machine took long to terminate the evicted pod: %s may have been next", name)
		return
	}
	n.MustStillRun(name, want)
}

// A pod that leaks is evicted before the kernel's OOM killer acts; pods with low usage
// keep running. New pods without a request are held, unless they tolerate the pressure. Some
// time after the pressure ends all of them run, also across restarts.
func TestEviction(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		if !n.Needs("memory") {
			return
		}
		// The pressure lasts until the test has seen the states in between.
		args := func(transition time.Duration) []string {
			return []string{"--eviction-hard", "memory.available<200Mi", "--eviction-pressure-transition-period",
				transition.String()}
		}
		n.Args = nil
		memoryCgroup := setMemoryLimit(n, 1<<30)
		root := n.Args
		n.Args = append(args(time.Hour), root...)
		n.WriteManifest("calm.yaml", harness.SleepPod("calm", "one"))
		n.MustStart()
		calm := n.AwaitRunning("calm")
		n.WriteManifest("leak.yaml", oneShotPod(n, "leak", memoryLeakScript)+volumeArgs(n, ""))
		awaitEvicted(n, "leak", "low on resource: memory", "200Mi", "MemoryPressure")
		peak, err := os.ReadFile(filepath.Join(memoryCgroup, "memory.max_usage_in_bytes"))
		if err != nil {
			t.Fatal(err)
		}
		if used, err := strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64); err != nil || used >= 1<<30 ||
			used < 700<<20 {
			t.Errorf("at most %d MiB of 1024 were used (%v)", used>>20, err)
		}
		awaitCondition(n, v1.NodeMemoryPressure, v1.ConditionTrue)
		pressure, err := conditionOf(n, v1.NodeMemoryPressure)
		if err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("tolerant.yaml",
			harness.PodWithSpec("tolerant",
				"tolerations: [{key: node.kubernetes.io/memory-pressure, operator: Exists, effect: NoSchedule}]"))
		n.WriteManifest("late.yaml", harness.PodWithSpec("late", ""))
		n.AwaitHeld("late", "MemoryPressure", "The node had condition: [MemoryPressure]")
		n.AwaitRunning("tolerant")
		if events, err := n.Events("tolerant"); err != nil || events["MemoryPressure"].Count != 0 {
			t.Errorf("a pod that tolerates the pressure was held: %v, %v", events, err)
		}
		n.Restart()
		n.AwaitStatus("leak", "is still evicted", func(p v1.Pod) error { return evicted(p) })
		awaitCondition(n, v1.NodeMemoryPressure, v1.ConditionTrue)
		const transition = 30 * time.Second
		n.Args = append(args(transition), root...)
		n.Restart()
		n.AwaitRunning("leak")
		if waited := time.Since(pressure.LastTransitionTime.Time); waited < transition {
			t.Errorf("it was started again %s after the pressure", waited)
		}
		n.AwaitRunning("late")
		awaitCondition(n, v1.NodeMemoryPressure, v1.ConditionFalse)
		n.AwaitStatus("leak", "is no longer evicted", func(p v1.Pod) error {
			if evicted(p) == nil || p.Status.Phase != v1.PodRunning || p.Status.ContainerStatuses[0].RestartCount != 1 {
				return fmt.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
			}
			return nil
		})
		mustBeSpared(n, "calm", calm)
		all, err := n.Events("")
		if e := all["EvictionThresholdMet"]; err != nil || e.Count < 1 || e.InvolvedObject.Kind != "Node" ||
			!strings.Contains(e.Message, "memory") {
			t.Errorf("the node's event is %+v, %v", e, err)
		}
	})
}

// A pod that fills the node's disk is evicted, its files are removed, and the others keep
// running.
func TestEvictionOfAFullDisk(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		harness.MountDisk(t, n.Root, 64<<20)
		threshold := []string{"--eviction-hard", "nodefs.available<20%,nodefs.inodesFree<5%",
			"--eviction-pressure-transition-period"}
		n.Args = append(slices.Clone(threshold), "1h") // until the test has seen the pressure
		n.WriteManifest("calm.yaml", harness.SleepPod("calm", "one"))
		n.MustStart()
		calm := n.AwaitRunning("calm")
		n.WriteManifest("writer.yaml", oneShotPod(n, "writer", "head -c 200000000 /dev/zero > /data/big")+volumeArgs(n, ""))
		awaitEvicted(n, "writer", "low on resource: ephemeral-storage", "nodefs.available", "DiskPressure")
		awaitCondition(n, v1.NodeDiskPressure, v1.ConditionTrue)
		n.Await("its files are removed", func() error {
			if used := usedPercent(t, n.Root); used > 50 {
				return fmt.Errorf("%d%% are used", used)
			}
			return nil
		})
		n.Args = append(slices.Clone(threshold), "15s")
		n.Restart()
		n.AwaitRunning("writer")
		awaitCondition(n, v1.NodeDiskPressure, v1.ConditionFalse)
		mustBeSpared(n, "calm", calm)
	})
}

// A disk that another program filled ends no pod. A restart of the daemon, an edited and a new
// manifest make pods start whose images are on the node.
func TestDiskFilledByAnotherProgram(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		harness.MountDisk(t, n.Root, 64<<20)
		n.Args = []string{"--eviction-hard", "nodefs.available<20%,nodefs.inodesFree<5%"}
		n.WriteManifest("calm.yaml", harness.SleepPod("calm", "one"))
		n.WriteManifest("edited.yaml", harness.SleepPod("edited", "one"))
		n.MustStart()
		calm := n.AwaitRunning("calm")
		before := n.AwaitRunning("edited")
		if err := os.WriteFile(filepath.Join(n.Root, "other"), make([]byte, 46<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		awaitCondition(n, v1.NodeDiskPressure, v1.ConditionTrue)
		n.Await("an event says that no pod is to blame", func() error {
			body, err := n.Get(t.Context(), "/api/v1/events")
			if err == nil && !strings.Contains(string(body), "other files fill the disk") {
				err = errors.New("there is none")
			}
			return err
		})
		n.Restart()
		n.WriteManifest("edited.yaml", harness.SleepPod("edited", "two"))
		n.WriteManifest("new.yaml", harness.SleepPod("new", "one"))
		n.AwaitRunning("new")
		n.Await("the edited pod is replaced", func() error {
			after, err := n.Running("edited")
			if err == nil && (len(after) != 1 || after["main"] == before) {
				err = fmt.Errorf("%v runs", after)
			}
			return err
		})
		n.MustStillRun("calm", calm)
		awaitCondition(n, v1.NodeDiskPressure, v1.ConditionTrue)
	})
}

// A disk that a claim fills is blamed on the claim, with its size, by status, get pods and the log. The pod keeps
// running.
func TestDiskFilledByAClaim(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		harness.MountDisk(t, n.Root, 64<<20)
		n.Args = []string{"--eviction-hard", "nodefs.available<20%,nodefs.inodesFree<5%",
			"--eviction-pressure-transition-period", "1s"}
		n.WriteManifest("claim.yaml", "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\n"+
			"spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}\n")
		n.WriteManifest("db.yaml", strings.Replace(oneShotPod(n, "db", "head -c 48000000 /dev/zero > /data/big")+
			volumeArgs(n, ""), "emptyDir: {}", "persistentVolumeClaim: {claimName: data}", 1))
		n.MustStart()
		db := n.AwaitRunning("db")
		awaitCondition(n, v1.NodeDiskPressure, v1.ConditionTrue)
		const cause = "the disk is filled by claim default/data of pod default/db (4"
		n.AwaitStatusLine(1, "Pressure: DiskPressure for ", "the node has disk pressure: nodefs.available is ", cause)
		n.CLI(0, []string{"node: " + n.Name + " has DiskPressure", cause}, "get", "pods")
		n.CLI(0, []string{"EvictionThresholdMet", cause}, "get", "events")
		log, err := os.ReadFile(n.Log())
		if err != nil || !strings.Contains(string(log), "claim default/data of pod default/db (4") ||
			strings.Contains(string(log), "other files fill the disk") {
			t.Errorf("the log does not blame the claim: %v", err)
		}
		n.MustStillRun("db", db)
		n.Exec(db, "rm", "/data/big")
		n.AwaitStatusLine(0, "Pressure: none")
	})
}

// Pods that exceed their local storage limits are evicted: of an emptyDir, of the writable
// layer, of logs, and of the files that podstead mounts into containers. Others are not.
func TestLocalStorageLimits(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--eviction-pressure-transition-period", "3s"}
		const fill = "head -c 12000000 /dev/zero > "
		limit := harness.Resources("limits: {ephemeral-storage: 8Mi}")
		n.WriteManifest("dir.yaml", oneShotPod(n, "dir", fill+"/data/big")+volumeArgs(n, "sizeLimit: 8Mi"))
		n.WriteManifest("root.yaml", oneShotPod(n, "root", fill+"/big")+limit+volumeArgs(n, ""))
		n.WriteManifest("log.yaml", oneShotPod(n, "log", "head -c 12000000 /dev/zero | tr '\\0' 'x' | fold -w 1000")+limit+
			volumeArgs(n, ""))
		n.WriteManifest("all.yaml", oneShotPod(n, "all", fill+"/data/big")+limit+volumeArgs(n, ""))
		n.WriteManifest("hosts.yaml", oneShotPod(n, "hosts", fill+"/etc/hosts")+limit+volumeArgs(n, ""))
		n.WriteManifest("message.yaml", oneShotPod(n, "message", fill+"/dev/termination-log")+limit+volumeArgs(n, ""))
		n.WriteManifest("fine.yaml", oneShotPod(n, "fine", "head -c 4000000 /dev/zero > /data/big")+limit+
			volumeArgs(n, "sizeLimit: 8Mi"))
		n.MustStart()
		fine := n.AwaitRunning("fine")
		for name, words := range map[string][]string{
			"dir":     {`Usage of emptyDir volume "data" (`, "exceeds its sizeLimit 8Mi"},
			"root":    {`Container "main" uses `, "exceeds its limit 8Mi"},
			"log":     {`Container "main" uses `, "exceeds its limit 8Mi"},
			"all":     {"The pod uses ", "exceeds the total limit of its containers 8Mi"},
			"hosts":   {"The pod uses ", "exceeds the total limit of its containers 8Mi"},
			"message": {"The pod uses ", "exceeds the total limit of its containers 8Mi"},
		} {
			n.AwaitEvent(name, "Evicted", words...)
			n.AwaitStatus(name, "runs again", func(p v1.Pod) error {
				if c := p.Status.ContainerStatuses; p.Status.Phase != v1.PodRunning || c[0].State.Running == nil ||
					c[0].RestartCount < 1 {
					return fmt.Errorf("%s %s", p.Status.Phase, p.Status.Reason)
				}
				return nil
			})
		}
		// The usage of the previous run was removed and does not count.
		n.WriteManifest("more.yaml", oneShotPod(n, "more", fill+"/data/big")+volumeArgs(n, "sizeLimit: 8Mi"))
		n.AwaitEvent("more", "Evicted")
		for _, name := range []string{"dir", "root", "log", "all", "hosts", "message"} {
			all, err := n.Events(name)
			if e := all["Evicted"]; err != nil || e.Count != 1 {
				t.Errorf("%s was evicted %d times (%v)", name, e.Count, err)
			}
			n.AwaitRunning(name)
		}
		n.MustStillRun("fine", fine)
	})
}
