package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// Owns reports whether a sandbox with this name belongs to a pod of the node.
func (n *Node) Owns(sandbox string) bool { return strings.HasSuffix(sandbox, "-"+n.Name) }

// Node is a daemon under test and the runtime it uses. Its methods fail the test on errors,
// unless they return an error.
type Node struct {
	*testbed.Node
	T       *testing.T
	Runtime *testbed.Runtime
	// hasKubeconfig is true after a kubeconfig was issued, which names the daemon's port.
	hasKubeconfig bool
}

// NewNode creates a node whose daemon and pods are removed at the end of the test.
func NewNode(t *testing.T, rt *testbed.Runtime) *Node {
	t.Helper()
	b, err := testbed.NewNode(nodeName(), rt.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Node: b, T: t, Runtime: rt}
	t.Cleanup(func() {
		n.End() // Runtimes do not survive every call that is cut off.
		n.RemovePods()
		if t.Failed() {
			t.Logf("end of the daemon's log:\n%s", LastLines(n.Log(), 40))
		}
	})
	return n
}

// OwnPort gives the daemon a port for the Kubernetes API that no other node takes while it is down. By
// default the daemons of all tests choose from the same ports when a kubeconfig is issued.
func (n *Node) OwnPort() {
	n.Args = append(n.Args, "--address", "127.0.0.1", "--port", strconv.Itoa(HostPort()))
}

// MustStart starts the daemon and waits until it responds.
func (n *Node) MustStart() {
	n.T.Helper()
	if n.hasKubeconfig && !slices.Contains(n.Args, "--port") {
		n.T.Fatal("a daemon with a kubeconfig starts again: call OwnPort before its first start")
	}
	if err := n.Start(n.T.Context()); err != nil {
		n.T.Fatal(err)
	}
}

// Restart kills the daemon and starts it again.
func (n *Node) Restart() {
	n.T.Helper()
	n.Kill()
	n.MustStart()
}

// WriteManifest writes a manifest.
func (n *Node) WriteManifest(file, content string) {
	n.T.Helper()
	if err := n.Write(file, content); err != nil {
		n.T.Fatal(err)
	}
}

// RemoveManifest removes a manifest.
func (n *Node) RemoveManifest(file string) {
	n.T.Helper()
	if err := n.Remove(file); err != nil {
		n.T.Fatal(err)
	}
}

// Await polls until check returns nil. It fails the test with the last error after the
// deadline. The default deadline is five minutes, since on a busy machine each call to a runtime
// can take a minute, and a generous deadline costs nothing when the check succeeds.
func (n *Node) Await(what string, check func() error, deadline ...time.Duration) {
	n.T.Helper()
	Await(n.T, what, check, deadline...)
}

// Await polls until check returns nil, as the method of Node does.
func Await(t *testing.T, what string, check func() error, deadline ...time.Duration) {
	t.Helper()
	limit := 5 * time.Minute
	if len(deadline) > 0 {
		limit = deadline[0]
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	step := time.NewTicker(20 * time.Millisecond)
	defer step.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-step.C:
		case <-timeout.C:
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
	}
}

// Instance is one running container.
type Instance struct {
	ID      string
	Pid     int
	Attempt uint32
}

// Running returns the running instances of a pod's containers by container name. name is the
// pod's name in its manifest.
func (n *Node) Running(name string) (map[string]Instance, error) {
	ctx := n.T.Context()
	list, err := n.Runtime.CRI.Containers(ctx, "io.kubernetes.pod.name", n.PodName(name))
	if err != nil {
		return nil, err
	}
	found := map[string]Instance{}
	for _, c := range list {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if _, twice := found[c.Metadata.Name]; twice {
			n.T.Errorf("container %q of pod %q has two running instances", c.Metadata.Name, name)
		}
		pid, err := n.Runtime.CRI.Pid(ctx, c.Id)
		if err != nil {
			return nil, err
		}
		if pid == 0 {
			return nil, fmt.Errorf("container %q of pod %q has no pid yet", c.Metadata.Name, name)
		}
		found[c.Metadata.Name] = Instance{ID: c.Id, Pid: pid, Attempt: c.Metadata.Attempt}
	}
	return found, nil
}

// AwaitRunning waits until the pod's container "main" runs and returns it.
func (n *Node) AwaitRunning(name string) Instance {
	n.T.Helper()
	return n.AwaitContainer(name, "main")
}

// AwaitContainer waits until a container runs and returns it.
func (n *Node) AwaitContainer(name, container string) Instance {
	n.T.Helper()
	var got Instance
	n.Await(fmt.Sprintf("container %q of pod %q runs", container, name), func() error {
		found, err := n.Running(name)
		if err != nil {
			return err
		}
		var ok bool
		if got, ok = found[container]; !ok {
			return fmt.Errorf("running: %v", found)
		}
		return nil
	})
	return got
}

// AwaitOther waits until an instance other than old runs and returns it.
func (n *Node) AwaitOther(name string, old Instance) Instance {
	n.T.Helper()
	var got Instance
	n.Await(fmt.Sprintf("another instance of pod %q runs", name), func() error {
		found, err := n.Running(name)
		if err != nil {
			return err
		}
		got = found["main"]
		if got.ID == "" || got.ID == old.ID {
			return fmt.Errorf("running: %v", found)
		}
		return nil
	})
	return got
}

// MustStillRun fails the test unless the same instance of container "main" still runs.
func (n *Node) MustStillRun(name string, want Instance) {
	n.T.Helper()
	found, err := n.Running(name)
	if err != nil {
		n.T.Fatal(err)
	}
	if got := found["main"]; got != want {
		n.T.Fatalf("pod %q runs as %+v, want the same instance as before, %+v", name, got, want)
	}
}

// Sandboxes returns all sandboxes of a pod, running or not.
func (n *Node) Sandboxes(name string) ([]*runtimeapi.PodSandbox, error) {
	return n.Runtime.CRI.Sandboxes(n.T.Context(), "io.kubernetes.pod.name", n.PodName(name))
}

// AwaitGone waits until no sandbox of a pod is ready and no container runs.
func (n *Node) AwaitGone(name string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("pod %q is gone", name), func() error {
		all, err := n.Sandboxes(name)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				return fmt.Errorf("sandbox %s is ready", s.Id)
			}
		}
		found, err := n.Running(name)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("running: %v", found)
		}
		return nil
	})
}

// Pod returns a pod as the daemon reports it, or an error if the daemon does not report it.
func (n *Node) Pod(name string) (v1.Pod, error) {
	pods, err := n.Pods(n.T.Context())
	if err != nil {
		return v1.Pod{}, err
	}
	p, ok := pods[name]
	if !ok {
		return p, fmt.Errorf("/pods does not contain %q, only %v", name, Keys(pods))
	}
	return p, nil
}

// AwaitStatus waits until the pod that the daemon reports satisfies check.
func (n *Node) AwaitStatus(name, what string, check func(v1.Pod) error) v1.Pod {
	n.T.Helper()
	var p v1.Pod
	n.Await(fmt.Sprintf("status of pod %q: %s", name, what), func() error {
		var err error
		if p, err = n.Pod(name); err != nil {
			return err
		}
		return check(p)
	})
	return p
}

// AwaitPhase waits until a pod has the phase.
func (n *Node) AwaitPhase(name string, phase v1.PodPhase) v1.Pod {
	n.T.Helper()
	return n.AwaitStatus(name, string(phase), func(p v1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("phase is %s (%s): %+v", p.Status.Phase, p.Status.Message, p.Status.ContainerStatuses)
		}
		return nil
	})
}

// AwaitReady waits until the daemon reports that a pod is ready.
func (n *Node) AwaitReady(name string) v1.Pod {
	n.T.Helper()
	return n.AwaitStatus(name, "ready", func(p v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("phase %s, conditions %v", p.Status.Phase, p.Status.Conditions)
	})
}

// AwaitManifestError waits until the daemon's manifest status contains all words, and returns
// it.
func (n *Node) AwaitManifestError(words ...string) string {
	n.T.Helper()
	var text string
	n.Await(fmt.Sprintf("the manifest status contains %q", words), func() error {
		body, err := n.Get(n.T.Context(), "/podstead/v1/manifests")
		if err != nil {
			return err
		}
		text = string(body)
		for _, w := range words {
			if !strings.Contains(text, w) {
				return fmt.Errorf("no %q in %s", w, text)
			}
		}
		return nil
	})
	return text
}

// Exec runs a command in an instance and returns its output without surrounding white space.
func (n *Node) Exec(i Instance, command ...string) string {
	n.T.Helper()
	out, err := n.Runtime.CRI.Exec(n.T.Context(), i.ID, command...)
	if err != nil {
		n.T.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// AwaitExec waits until a command in an instance succeeds and prints this.
func (n *Node) AwaitExec(i Instance, want string, command ...string) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%s prints %q", strings.Join(command, " "), want), func() error {
		out, err := n.Runtime.CRI.Exec(n.T.Context(), i.ID, command...)
		if got := strings.TrimSpace(out); err == nil && got != want {
			err = fmt.Errorf("it prints %q", got)
		}
		return err
	})
}

// leftTask is the error of a containerd 1.6 that kept the task of a container that has ended for the CRI: a
// request was cut off between the two. No request of the CRI removes it.
var leftTask = regexp.MustCompile(`cannot delete running task ([0-9a-f]{64})`)

// RemovePods removes all pods of this node, so that the next test finds an idle runtime. It
// repeats until none is left, because the runtime may still work on requests of a daemon that
// was killed.
func (n *Node) RemovePods() {
	n.T.Helper()
	call := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return f(ctx)
	}
	n.Await("all pods of "+n.Name+" are removed", func() error {
		var all []*runtimeapi.PodSandbox
		if err := call(func(ctx context.Context) (err error) {
			all, err = n.Runtime.CRI.Sandboxes(ctx, "", "")
			return err
		}); err != nil {
			return err
		}
		var errs []error
		for _, s := range all {
			if !n.Owns(s.Metadata.Name) {
				continue
			}
			// A call may wait forever for the end of a process that the runtime has
			// missed. The next call looks at the process again.
			err := call(func(ctx context.Context) error { return n.Runtime.CRI.RemovePod(ctx, s.Id) })
			if task := leftTask.FindStringSubmatch(fmt.Sprint(err)); task != nil {
				n.T.Logf("the runtime kept a task of %s: %v", s.Metadata.Name, err)
				err = errors.Join(err, call(func(ctx context.Context) error { return n.Runtime.RemoveTask(ctx, task[1]) }))
			}
			errs = append(errs, fmt.Errorf("sandbox %s of %s still exists", s.Id, s.Metadata.Name), err)
		}
		return errors.Join(errs...)
	}, 10*time.Minute)
}

// LastLines returns the last lines of a file, or the error of reading it.
func LastLines(file string, count int) string {
	f, err := os.Open(file)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		lines = append(lines, s.Text())
	}
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}

// Keys returns the keys of a map in order.
func Keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// SleepPod returns the manifest of a pod that exits immediately on SIGTERM. Pods with
// different words are different revisions.
func SleepPod(name, word string) string {
	return ScriptPod(name, word, 10, "trap 'exit 0' TERM; sleep 100000 & wait")
}

// ScriptPod returns the manifest of a pod with a grace period that runs a script.
func ScriptPod(name, word string, grace int, script string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: %s
spec:
  terminationGracePeriodSeconds: %d
  containers:
    - name: main
      image: %s
      command: ["sh", "-c", %q]
      env:
        - name: WORD
          value: %q
`, name, grace, testbed.BusyboxImage, script, word)
}
