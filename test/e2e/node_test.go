package e2e

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

// node is a daemon under test and the runtime it uses. Its methods fail the test on errors,
// unless they return an error.
type node struct {
	*testbed.Node
	t  *testing.T
	rt *testbed.Runtime
	// hasKubeconfig is true after a kubeconfig was issued, which names the daemon's port.
	hasKubeconfig bool
}

// newNode creates a node whose daemon and pods are removed at the end of the test.
func newNode(t *testing.T, rt *testbed.Runtime) *node {
	t.Helper()
	b, err := testbed.NewNode(nodeName(), rt.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Node: b, t: t, rt: rt}
	t.Cleanup(func() {
		n.End() // Runtimes do not survive every call that is cut off.
		n.removePods()
		if t.Failed() {
			t.Logf("end of the daemon's log:\n%s", lastLines(n.Log(), 40))
		}
	})
	return n
}

// ownPort gives the daemon a port for the Kubernetes API that no other node takes while it is down. By
// default the daemons of all tests choose from the same ports when a kubeconfig is issued.
func (n *node) ownPort() {
	n.Args = append(n.Args, "--address", "127.0.0.1", "--port", strconv.Itoa(hostPort()))
}

// start starts the daemon and waits until it answers.
func (n *node) start() {
	n.t.Helper()
	if n.hasKubeconfig && !slices.Contains(n.Args, "--port") {
		n.t.Fatal("a daemon with a kubeconfig starts again: call ownPort before its first start")
	}
	if err := n.Start(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// restart kills the daemon and starts it again.
func (n *node) restart() {
	n.t.Helper()
	n.Kill()
	n.start()
}

// writeManifest writes a manifest.
func (n *node) writeManifest(file, content string) {
	n.t.Helper()
	if err := n.Write(file, content); err != nil {
		n.t.Fatal(err)
	}
}

// removeManifest removes a manifest.
func (n *node) removeManifest(file string) {
	n.t.Helper()
	if err := n.Remove(file); err != nil {
		n.t.Fatal(err)
	}
}

// await polls until check returns nil. It fails the test with the last error after the
// deadline. The default deadline is five minutes, since on a busy machine each call to a runtime
// can take a minute, and a generous deadline costs nothing when the check succeeds.
func (n *node) await(what string, check func() error, deadline ...time.Duration) {
	n.t.Helper()
	await(n.t, what, check, deadline...)
}

// await polls until check returns nil, as the method of node does.
func await(t *testing.T, what string, check func() error, deadline ...time.Duration) {
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

// instance is one running container.
type instance struct {
	ID      string
	Pid     int
	Attempt uint32
}

// running returns the running instances of a pod's containers by container name. name is the
// pod's name in its manifest.
func (n *node) running(name string) (map[string]instance, error) {
	ctx := n.t.Context()
	list, err := n.rt.CRI.Containers(ctx, "io.kubernetes.pod.name", n.PodName(name))
	if err != nil {
		return nil, err
	}
	found := map[string]instance{}
	for _, c := range list {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if _, twice := found[c.Metadata.Name]; twice {
			n.t.Errorf("container %q of pod %q has two running instances", c.Metadata.Name, name)
		}
		pid, err := n.rt.CRI.Pid(ctx, c.Id)
		if err != nil {
			return nil, err
		}
		if pid == 0 {
			return nil, fmt.Errorf("container %q of pod %q has no pid yet", c.Metadata.Name, name)
		}
		found[c.Metadata.Name] = instance{ID: c.Id, Pid: pid, Attempt: c.Metadata.Attempt}
	}
	return found, nil
}

// awaitRunning waits until the pod's container "main" runs and returns it.
func (n *node) awaitRunning(name string) instance {
	n.t.Helper()
	return n.awaitContainer(name, "main")
}

// awaitContainer waits until a container runs and returns it.
func (n *node) awaitContainer(name, container string) instance {
	n.t.Helper()
	var got instance
	n.await(fmt.Sprintf("container %q of pod %q runs", container, name), func() error {
		found, err := n.running(name)
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

// awaitOther waits until an instance other than old runs and returns it.
func (n *node) awaitOther(name string, old instance) instance {
	n.t.Helper()
	var got instance
	n.await(fmt.Sprintf("another instance of pod %q runs", name), func() error {
		found, err := n.running(name)
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

// mustStillRun fails the test unless the same instance of container "main" still runs.
func (n *node) mustStillRun(name string, want instance) {
	n.t.Helper()
	found, err := n.running(name)
	if err != nil {
		n.t.Fatal(err)
	}
	if got := found["main"]; got != want {
		n.t.Fatalf("pod %q runs as %+v, want the same instance as before, %+v", name, got, want)
	}
}

// sandboxes returns all sandboxes of a pod, running or not.
func (n *node) sandboxes(name string) ([]*runtimeapi.PodSandbox, error) {
	return n.rt.CRI.Sandboxes(n.t.Context(), "io.kubernetes.pod.name", n.PodName(name))
}

// awaitGone waits until no sandbox of a pod is ready and no container runs.
func (n *node) awaitGone(name string) {
	n.t.Helper()
	n.await(fmt.Sprintf("pod %q is gone", name), func() error {
		all, err := n.sandboxes(name)
		if err != nil {
			return err
		}
		for _, s := range all {
			if s.State == runtimeapi.PodSandboxState_SANDBOX_READY {
				return fmt.Errorf("sandbox %s is ready", s.Id)
			}
		}
		found, err := n.running(name)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("running: %v", found)
		}
		return nil
	})
}

// pod returns a pod as the daemon reports it, or an error if the daemon does not report it.
func (n *node) pod(name string) (v1.Pod, error) {
	pods, err := n.Pods(n.t.Context())
	if err != nil {
		return v1.Pod{}, err
	}
	p, ok := pods[name]
	if !ok {
		return p, fmt.Errorf("/pods does not contain %q, only %v", name, keys(pods))
	}
	return p, nil
}

// awaitStatus waits until the pod that the daemon reports satisfies check.
func (n *node) awaitStatus(name, what string, check func(v1.Pod) error) v1.Pod {
	n.t.Helper()
	var p v1.Pod
	n.await(fmt.Sprintf("status of pod %q: %s", name, what), func() error {
		var err error
		if p, err = n.pod(name); err != nil {
			return err
		}
		return check(p)
	})
	return p
}

// awaitPhase waits until a pod has the phase.
func (n *node) awaitPhase(name string, phase v1.PodPhase) v1.Pod {
	n.t.Helper()
	return n.awaitStatus(name, string(phase), func(p v1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("phase is %s (%s): %+v", p.Status.Phase, p.Status.Message, p.Status.ContainerStatuses)
		}
		return nil
	})
}

// awaitReady waits until the daemon reports that a pod is ready.
func (n *node) awaitReady(name string) v1.Pod {
	n.t.Helper()
	return n.awaitStatus(name, "ready", func(p v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("phase %s, conditions %v", p.Status.Phase, p.Status.Conditions)
	})
}

// awaitManifestError waits until the daemon's manifest status contains all words, and returns
// it.
func (n *node) awaitManifestError(words ...string) string {
	n.t.Helper()
	var text string
	n.await(fmt.Sprintf("the manifest status contains %q", words), func() error {
		body, err := n.Get(n.t.Context(), "/podstead/v1/manifests")
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

// exec runs a command in an instance and returns its output without surrounding white space.
func (n *node) exec(i instance, command ...string) string {
	n.t.Helper()
	out, err := n.rt.CRI.Exec(n.t.Context(), i.ID, command...)
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// awaitExec waits until a command in an instance succeeds and prints this.
func (n *node) awaitExec(i instance, want string, command ...string) {
	n.t.Helper()
	n.await(fmt.Sprintf("%s prints %q", strings.Join(command, " "), want), func() error {
		out, err := n.rt.CRI.Exec(n.t.Context(), i.ID, command...)
		if got := strings.TrimSpace(out); err == nil && got != want {
			err = fmt.Errorf("it prints %q", got)
		}
		return err
	})
}

// leftTask is the error of a containerd 1.6 that kept the task of a container that has ended for the CRI: a
// request was cut off between the two. No request of the CRI removes it.
var leftTask = regexp.MustCompile(`cannot delete running task ([0-9a-f]{64})`)

// removePods removes all pods of this node, so that the next test finds an idle runtime. It
// repeats until none is left, because the runtime may still work on requests of a daemon that
// was killed.
func (n *node) removePods() {
	n.t.Helper()
	call := func(f func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		return f(ctx)
	}
	n.await("all pods of "+n.Name+" are removed", func() error {
		var all []*runtimeapi.PodSandbox
		if err := call(func(ctx context.Context) (err error) {
			all, err = n.rt.CRI.Sandboxes(ctx, "", "")
			return err
		}); err != nil {
			return err
		}
		var errs []error
		for _, s := range all {
			if !n.owns(s.Metadata.Name) {
				continue
			}
			// A call may wait forever for the end of a process that the runtime has
			// missed. The next call looks at the process again.
			err := call(func(ctx context.Context) error { return n.rt.CRI.RemovePod(ctx, s.Id) })
			if task := leftTask.FindStringSubmatch(fmt.Sprint(err)); task != nil {
				n.t.Logf("the runtime kept a task of %s: %v", s.Metadata.Name, err)
				err = errors.Join(err, call(func(ctx context.Context) error { return n.rt.RemoveTask(ctx, task[1]) }))
			}
			errs = append(errs, fmt.Errorf("sandbox %s of %s still exists", s.Id, s.Metadata.Name), err)
		}
		return errors.Join(errs...)
	}, 10*time.Minute)
}

// processExists reports whether a process exists and is not a zombie.
func processExists(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// lastLines returns the last lines of a file, or the error of reading it.
func lastLines(file string, count int) string {
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

// keys returns the keys of a map in order.
func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// sleepPod returns the manifest of a pod that exits immediately on SIGTERM. Pods with
// different words are different revisions.
func sleepPod(name, word string) string {
	return scriptPod(name, word, 10, "trap 'exit 0' TERM; sleep 100000 & wait")
}

// scriptPod returns the manifest of a pod with a grace period that runs a script.
func scriptPod(name, word string, grace int, script string) string {
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
