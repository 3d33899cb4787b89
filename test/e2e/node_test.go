package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/testbed"
)

// node is a daemon under test with the runtime it works on, and what a test
// asks of both. All its methods fail the test on error.
type node struct {
	*testbed.Node
	t  *testing.T
	rt *testbed.Runtime
}

// newNode makes a node whose daemon and pods end with the test.
func newNode(t *testing.T, rt *testbed.Runtime) *node {
	t.Helper()
	b, err := testbed.NewNode(nodeName(), rt.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Node: b, t: t, rt: rt}
	t.Cleanup(func() {
		n.Kill()
		n.removePods()
		if t.Failed() {
			t.Logf("end of the daemon's log:\n%s", lastLines(n.Log(), 40))
		}
	})
	return n
}

// start starts the daemon and waits until it answers.
func (n *node) start() {
	n.t.Helper()
	if err := n.Start(n.t.Context()); err != nil {
		n.t.Fatal(err)
	}
}

// restart kills the daemon at once and starts it again.
func (n *node) restart() {
	n.t.Helper()
	n.Kill()
	n.start()
}

// put writes a manifest.
func (n *node) writeManifest(file, content string) {
	n.t.Helper()
	if err := n.Write(file, content); err != nil {
		n.t.Fatal(err)
	}
}

// drop removes a manifest.
func (n *node) removeManifest(file string) {
	n.t.Helper()
	if err := n.Remove(file); err != nil {
		n.t.Fatal(err)
	}
}

// await polls until check is nil, and fails the test with its last error
// when that takes longer than the deadline, three minutes if none is given: a busy
// machine may be slow, and who waits loses nothing.
func (n *node) await(what string, check func() error, deadline ...time.Duration) {
	n.t.Helper()
	await(n.t, what, check, deadline...)
}

func await(t *testing.T, what string, check func() error, deadline ...time.Duration) {
	t.Helper()
	limit := 3 * time.Minute
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

// running are the running instances of a pod's containers by container name.
// name is the pod's in its manifest.
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
			n.t.Errorf("container %q of pod %q runs twice", c.Metadata.Name, name)
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

// awaitRunning waits until the pod's container "main" runs, and returns it.
func (n *node) awaitRunning(name string) instance {
	n.t.Helper()
	return n.awaitContainer(name, "main")
}

// awaitContainer waits until a container runs, and returns it.
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

// awaitOther waits until another instance than old runs, and returns it.
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

// mustBe fails the test unless the very instance still runs.
func (n *node) mustStillRun(name string, want instance) {
	n.t.Helper()
	found, err := n.running(name)
	if err != nil {
		n.t.Fatal(err)
	}
	if got := found["main"]; got != want {
		n.t.Fatalf("pod %q runs as %+v, want the same as before, %+v", name, got, want)
	}
}

// sandboxes are those of a pod, running or not.
func (n *node) sandboxes(name string) ([]*runtimeapi.PodSandbox, error) {
	return n.rt.CRI.Sandboxes(n.t.Context(), "io.kubernetes.pod.name", n.PodName(name))
}

// awaitGone waits until nothing of a pod is ready or running.
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

// pod is what the daemon reports of a pod; an error if it reports nothing.
func (n *node) pod(name string) (v1.Pod, error) {
	pods, err := n.Pods(n.t.Context())
	if err != nil {
		return v1.Pod{}, err
	}
	p, ok := pods[name]
	if !ok {
		return p, fmt.Errorf("/pods has no %q, only %v", name, keys(pods))
	}
	return p, nil
}

// awaitStatus waits until the daemon's word on a pod satisfies check.
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

// awaitPhase waits for a phase.
func (n *node) awaitPhase(name string, phase v1.PodPhase) v1.Pod {
	n.t.Helper()
	return n.awaitStatus(name, string(phase), func(p v1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("phase is %s (%s): %+v", p.Status.Phase, p.Status.Message, p.Status.ContainerStatuses)
		}
		return nil
	})
}

// awaitReady waits until the daemon says that a pod is ready.
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

// awaitFault waits until the daemon's view of the manifests has every one of the words.
func (n *node) awaitManifestError(words ...string) string {
	n.t.Helper()
	var text string
	n.await(fmt.Sprintf("a fault that tells %q", words), func() error {
		body, err := n.Get(n.t.Context(), "/podstead/v1/manifests")
		if err != nil {
			return err
		}
		text = string(body)
		for _, w := range words {
			if !strings.Contains(text, w) {
				return fmt.Errorf("%q is not in %s", w, text)
			}
		}
		return nil
	})
	return text
}

// exec runs a command in an instance and returns what it wrote, trimmed.
func (n *node) exec(i instance, command ...string) string {
	n.t.Helper()
	out, err := n.rt.CRI.Exec(n.t.Context(), i.ID, command...)
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// removePods removes what this node's daemon made, whatever it was, so that the
// next test has a quiet runtime. The runtime may still be at work on what a daemon asked
// of it that was killed since: so it looks again until nothing is left.
func (n *node) removePods() {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	n.await("no pod of "+n.Name+" is left", func() error {
		all, err := n.rt.CRI.Sandboxes(ctx, "", "")
		if err != nil {
			return err
		}
		var errs []error
		for _, s := range all {
			if n.owns(s.Metadata.Name) {
				errs = append(errs, fmt.Errorf("%s is left", s.Metadata.Name), n.rt.CRI.RemovePod(ctx, s.Id))
			}
		}
		return errors.Join(errs...)
	}, 3*time.Minute)
}

// alive reports whether a process is there and no zombie.
func processExists(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

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

func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// sleepPod is the manifest of a pod that ends at once when asked to. Two with
// different words are different revisions.
func sleepPod(name, word string) string {
	return scriptPod(name, word, 10, "trap 'exit 0' TERM; sleep 100000 & wait")
}

// scriptPod is the manifest of a pod with a grace period and a script.
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
