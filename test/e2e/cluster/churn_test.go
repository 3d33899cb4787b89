package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// churn is a node in a cluster under constant change, and the pods expected at the end.
type churn struct {
	*harness.Node
	*harness.Admin
	*testbed.Cluster
	ctx context.Context
	// starts counts the expected starts of each pod of the cluster, including those of earlier
	// pods with the same name; jobs are the pods that have completed.
	starts map[string]int
	jobs   map[string]bool
	static []string
}

// Scripts of pods that write a line at each start.
const (
	countStartsAndRun = "echo start >> /out/$HOSTNAME; trap 'exit 0' TERM; sleep 100000 & wait"
	countsAndEnds     = "echo start >> /out/$HOSTNAME"
)

// bind creates pods of the cluster. Those named job* complete by themselves.
func (c *churn) bind(names ...string) {
	c.Node.T.Helper()
	var docs []string
	for _, name := range names {
		c.starts[name]++
		if strings.HasPrefix(name, "job") {
			c.jobs[name] = true
			docs = append(docs, boundPod(c.Node, name, countsAndEnds, "restartPolicy: Never\n"))
		} else {
			docs = append(docs, boundPod(c.Node, name, countStartsAndRun, ""))
		}
	}
	c.Create(strings.Join(docs, "---\n"))
}

// unbind deletes pods of the cluster.
func (c *churn) unbind(names ...string) {
	c.Node.T.Helper()
	args := []string{"delete", "pod", "--wait=false"}
	for _, name := range names {
		delete(c.starts, name)
		args = append(args, c.PodName(name))
	}
	c.Must(args...)
}

// edit writes the next revision of the static pod web and waits until it runs.
func (c *churn) edit(word string) {
	c.Node.T.Helper()
	old, err := c.Running("web")
	if err != nil {
		c.Node.T.Fatal(err)
	}
	c.WriteManifest("web.yaml", harness.SleepPod("web", word))
	c.AwaitOther("web", old["main"])
}

func (c *churn) startAPI() {
	c.Node.T.Helper()
	if err := c.StartAPI(c.ctx); err != nil {
		c.Node.T.Fatal(err)
	}
}

// awaitConsistent waits until the cluster, the runtime and the expected pods are consistent:
// each pod is reported once with its current status, has one sandbox, and was started once.
func (c *churn) awaitConsistent(when string) {
	c.Node.T.Helper()
	c.Await("cluster and runtime are consistent "+when, c.inconsistency, slowTimeout)
}

func (c *churn) inconsistency() error {
	var shown v1.PodList
	if err := c.Get(&shown, "pods", "-A"); err != nil {
		return err
	}
	left := maps.Clone(c.starts)
	for _, name := range c.static {
		left[name] = 0
	}
	uids := map[string]string{} // of the pods with a sandbox, by full name
	for _, p := range shown.Items {
		name := strings.TrimSuffix(p.Name, "-"+c.Name)
		starts, desired := left[name]
		if !desired {
			return fmt.Errorf("the cluster has %s, phase %s, deleted %v", p.Name, p.Status.Phase, p.DeletionTimestamp)
		}
		delete(left, name)
		if started := c.Lines(p.Name); starts > 0 && started != starts {
			return fmt.Errorf("%s was started %d times, want %d", p.Name, started, starts)
		}
		if c.jobs[name] {
			if p.Status.Phase != v1.PodSucceeded {
				return fmt.Errorf("%s is %s", p.Name, p.Status.Phase)
			}
			continue
		}
		uids[p.Name] = string(p.UID)
		if starts == 0 {
			uids[p.Name] = "" // A mirror pod has another UID.
		}
		found, err := c.Running(name)
		if err != nil {
			return err
		}
		if err := harness.PodReady(&p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		// A container that was created and not started when the daemon died has a successor
		// with the next restart number.
		if st := p.Status.ContainerStatuses[0]; st.ContainerID != "containerd://"+found["main"].ID ||
			st.RestartCount != int32(found["main"].Attempt) {
			return fmt.Errorf("%s is reported as %s with %d restarts, but %v runs", p.Name, st.ContainerID, st.RestartCount,
				found)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the cluster does not have %v", harness.Keys(left))
	}
	sandboxes, err := c.Runtime.CRI.Sandboxes(c.Node.T.Context(), "", "")
	if err != nil {
		return err
	}
	for _, s := range sandboxes {
		if !c.Owns(s.Metadata.Name) || s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		uid, desired := uids[s.Metadata.Name]
		if !desired || uid != "" && uid != s.Metadata.Uid {
			return fmt.Errorf("sandbox %s of %s, %s is unexpected", s.Id, s.Metadata.Name, s.Metadata.Uid)
		}
		delete(uids, s.Metadata.Name)
	}
	if len(uids) > 0 {
		return fmt.Errorf("no sandbox of %v", harness.Keys(uids))
	}
	return nil
}

// The API server repeatedly dies, returns and hangs, partly together with the daemon, while
// pods are created and deleted. In the end the cluster and the runtime are consistent, and
// pods that were to keep running were never touched.
func TestClusterChurn(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	cluster, a, kubeconfig := harness.NewCluster(ctx, n)
	c := &churn{n, a, cluster, ctx, map[string]int{}, map[string]bool{}, []string{"still", "web"}}
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	c.Must("create", "serviceaccount", "default")
	c.WriteManifest("still.yaml", harness.SleepPod("still", "one"))
	c.WriteManifest("web.yaml", harness.SleepPod("web", "one"))
	c.MustStart()
	still := c.AwaitRunning("still")

	// The API server dies as soon as it has accepted the pods.
	c.AwaitRunning("web")
	c.bind("gone0", "twice", "stays0", "job")
	c.KillAPI()
	c.edit("two")
	c.startAPI()

	// A pod may be deleted before the daemon has seen it. Then both die during a deletion. Not
	// during a start: the runtime cancels a start whose client disconnected, and the pod would
	// start twice.
	c.unbind("gone0")
	c.bind("stays1", "gone1", "gone2", "gone3")
	c.awaitConsistent("before both die")
	stays := c.AwaitRunning("stays1")
	c.unbind("gone3")
	c.KillAPI()
	c.Restart()
	c.edit("three")
	c.startAPI()

	// The daemon is down during these changes, and has no API server for a while afterwards.
	c.awaitConsistent("after two deaths")
	c.Kill()
	c.unbind("gone1")
	c.Must("delete", "pod", "--force", "--grace-period=0", c.PodName("twice"))
	c.bind("twice", "stays2")
	c.KillAPI()
	c.MustStart()
	c.edit("four")
	c.MustStillRun("stays1", stays)
	c.startAPI()
	c.awaitConsistent("after what the daemon did not see")

	// The API server hangs, which takes a while to detect, and then continues with the
	// requests that it received meanwhile. Then it hangs and dies.
	c.FreezeAPI()
	c.edit("five")
	c.Await("the daemon reports the API server as unreachable", c.apiUnreachable)
	c.edit("six")
	c.ThawAPI()
	c.unbind("gone2")
	c.FreezeAPI()
	c.edit("seven")
	c.KillAPI()
	c.startAPI()
	c.awaitConsistent("after it hung")
	c.MustStillRun("stays1", stays)

	// The node object is deleted, but not its pods.
	c.Must("delete", "node", c.Name, "--wait=false")
	c.Await("the node is registered again", func() error { return c.Get(&v1.Node{}, "node", c.Name) })
	c.awaitConsistent("after the node was deleted")
	c.MustStillRun("stays1", stays)

	// etcd loses all data: the pods that the cluster bound to this node terminate, and only
	// they.
	c.KillAPI()
	if err := errors.Join(c.WipeEtcd(), c.StartEtcd()); err != nil {
		t.Fatal(err)
	}
	for name := range c.starts {
		delete(c.starts, name)
	}
	c.startAPI()
	c.awaitConsistent("after all was lost")
	c.Await("a service account", func() error {
		_, err := c.Kubectl("create", "serviceaccount", "default")
		return err
	})
	c.bind("again")
	c.awaitConsistent("in the new cluster")
	c.MustStillRun("still", still)
}

// apiUnreachable returns nil once the daemon's last log message about the API server reports that
// it is unreachable.
func (c *churn) apiUnreachable() error {
	log, err := os.ReadFile(c.Node.Log())
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(strings.Split(string(log), "\n"),
		func(l string) bool { return !strings.Contains(l, "API server") })
	if len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "API server unreachable") {
		return fmt.Errorf("log: %q", lines)
	}
	return nil
}
