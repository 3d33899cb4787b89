package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// churn is a node whose cluster has no peace, and what should be left in the end.
type churn struct {
	*node
	*admin
	*testbed.Cluster
	ctx context.Context
	// starts are how often the pods of the cluster that should be there have been
	// started, with those of one name before them; jobs are those of them that ended.
	starts map[string]int
	jobs   map[string]bool
	static []string
}

// Scripts of pods that write a line for each start.
const (
	countStartsAndRun = "echo start >> /out/$HOSTNAME; trap 'exit 0' TERM; sleep 100000 & wait"
	countsAndEnds     = "echo start >> /out/$HOSTNAME"
)

// bind makes pods of the cluster, those named job* such as end by themselves.
func (c *churn) bind(names ...string) {
	c.node.t.Helper()
	var docs []string
	for _, name := range names {
		c.starts[name]++
		if strings.HasPrefix(name, "job") {
			c.jobs[name] = true
			docs = append(docs, c.boundPod(name, countsAndEnds, "restartPolicy: Never\n"))
		} else {
			docs = append(docs, c.boundPod(name, countStartsAndRun, ""))
		}
	}
	c.create(strings.Join(docs, "---\n"))
}

// unbind deletes pods of the cluster.
func (c *churn) unbind(names ...string) {
	c.node.t.Helper()
	args := []string{"delete", "pod", "--wait=false"}
	for _, name := range names {
		delete(c.starts, name)
		args = append(args, c.PodName(name))
	}
	c.must(args...)
}

// edit puts the next revision of the static pod web, and waits until it runs.
func (c *churn) edit(word string) {
	c.node.t.Helper()
	old, err := c.running("web")
	if err != nil {
		c.node.t.Fatal(err)
	}
	c.writeManifest("web.yaml", sleepPod("web", word))
	c.awaitOther("web", old["main"])
}

func (c *churn) startAPI() {
	c.node.t.Helper()
	if err := c.StartAPI(c.ctx); err != nil {
		c.node.t.Fatal(err)
	}
}

// settles waits until the cluster, the runtime and what should be there agree: each
// pod is shown once and as it is, has one sandbox, and was started once.
func (c *churn) awaitConsistent(when string) {
	c.node.t.Helper()
	c.await("all agree "+when, c.inconsistency, slowTimeout)
}

func (c *churn) inconsistency() error {
	var shown v1.PodList
	if err := c.get(&shown, "pods", "-A"); err != nil {
		return err
	}
	left := maps.Clone(c.starts)
	for _, name := range c.static {
		left[name] = 0
	}
	uids := map[string]string{} // of those with a sandbox, by the pod's full name
	for _, p := range shown.Items {
		name := strings.TrimSuffix(p.Name, "-"+c.Name)
		starts, wanted := left[name]
		if !wanted {
			return fmt.Errorf("the cluster has %s, phase %s, deleted %v", p.Name, p.Status.Phase, p.DeletionTimestamp)
		}
		delete(left, name)
		if started := c.lines(p.Name); starts > 0 && started != starts {
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
			uids[p.Name] = "" // A mirror has its own.
		}
		found, err := c.running(name)
		if err != nil {
			return err
		}
		if err := podReady(&p); err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		// A container that was created and not started when the daemon died has a
		// successor with the next number.
		if st := p.Status.ContainerStatuses[0]; st.ContainerID != "containerd://"+found["main"].ID || st.RestartCount != int32(found["main"].Attempt) {
			return fmt.Errorf("%s is shown as %s with %d restarts, %v runs", p.Name, st.ContainerID, st.RestartCount, found)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("the cluster lacks %v", keys(left))
	}
	sandboxes, err := c.rt.CRI.Sandboxes(c.node.t.Context(), "", "")
	if err != nil {
		return err
	}
	for _, s := range sandboxes {
		if !c.owns(s.Metadata.Name) || s.State != runtimeapi.PodSandboxState_SANDBOX_READY {
			continue
		}
		uid, wanted := uids[s.Metadata.Name]
		if !wanted || uid != "" && uid != s.Metadata.Uid {
			return fmt.Errorf("sandbox %s of %s, %s is too much", s.Id, s.Metadata.Name, s.Metadata.Uid)
		}
		delete(uids, s.Metadata.Name)
	}
	if len(uids) > 0 {
		return fmt.Errorf("no sandbox of %v", keys(uids))
	}
	return nil
}

// The API server dies, comes back and hangs, again and again and with it the daemon,
// while pods come and go. In the end the cluster and the runtime agree; what was to
// run on was never touched.
func TestClusterChurn(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cluster, a, kubeconfig := newCluster(ctx, n)
	c := &churn{n, a, cluster, ctx, map[string]int{}, map[string]bool{}, []string{"still", "web"}}
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	c.must("create", "serviceaccount", "default")
	c.writeManifest("still.yaml", sleepPod("still", "one"))
	c.writeManifest("web.yaml", sleepPod("web", "one"))
	c.start()
	still := c.awaitRunning("still")

	// It dies as soon as it has taken pods.
	c.awaitRunning("web")
	c.bind("gone0", "twice", "stays0", "job")
	c.KillAPI()
	c.edit("two")
	c.startAPI()

	// One that is deleted may not have been seen before. Then both die amid a
	// deletion. Not amid a start: the runtime takes back what it starts for a caller
	// that is gone, and the pod is started twice.
	c.unbind("gone0")
	c.bind("stays1", "gone1", "gone2", "gone3")
	c.awaitConsistent("before both die")
	stays := c.awaitRunning("stays1")
	c.unbind("gone3")
	c.KillAPI()
	c.restart()
	c.edit("three")
	c.startAPI()

	// The daemon sees none of this, and then nothing at all for a while.
	c.awaitConsistent("after two deaths")
	c.Kill()
	c.unbind("gone1")
	c.must("delete", "pod", "--force", "--grace-period=0", c.PodName("twice"))
	c.bind("twice", "stays2")
	c.KillAPI()
	c.start()
	c.edit("four")
	c.mustStillRun("stays1", stays)
	c.startAPI()
	c.awaitConsistent("after what the daemon did not see")

	// It hangs, which takes a while to find out, and goes on with all that it was
	// asked meanwhile; then it hangs and dies.
	c.FreezeAPI()
	c.edit("five")
	c.await("the daemon sees that nothing is answered", c.apiUnreachable)
	c.edit("six")
	c.ThawAPI()
	c.unbind("gone2")
	c.FreezeAPI()
	c.edit("seven")
	c.KillAPI()
	c.startAPI()
	c.awaitConsistent("after it hung")
	c.mustStillRun("stays1", stays)

	// The node object is deleted, but not its pods.
	c.must("delete", "node", c.Name, "--wait=false")
	c.await("the node is registered again", func() error { return c.get(&v1.Node{}, "node", c.Name) })
	c.awaitConsistent("after the node was deleted")
	c.mustStillRun("stays1", stays)

	// All is lost: what the cluster bound to this node ends, and only that.
	c.KillAPI()
	if err := errors.Join(c.WipeEtcd(), c.StartEtcd()); err != nil {
		t.Fatal(err)
	}
	for name := range c.starts {
		delete(c.starts, name)
	}
	c.startAPI()
	c.awaitConsistent("after all was lost")
	c.await("a service account", func() error {
		_, err := c.kubectl("create", "serviceaccount", "default")
		return err
	})
	c.bind("again")
	c.awaitConsistent("in the new cluster")
	c.mustStillRun("still", still)
}

// hangs is nil once the daemon's last word on the API server is that it is away.
func (c *churn) apiUnreachable() error {
	log, err := os.ReadFile(c.node.Log())
	if err != nil {
		return err
	}
	lines := slices.DeleteFunc(strings.Split(string(log), "\n"), func(l string) bool { return !strings.Contains(l, "API server") })
	if len(lines) == 0 || !strings.Contains(lines[len(lines)-1], "API server unreachable") {
		return fmt.Errorf("it says %q", lines)
	}
	return nil
}
