package pods

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// orderedPods is the size of the graph of TestStartOrder.
const orderedPods = 20

func orderedName(i int) string { return fmt.Sprintf("p%02d", i) }

// orderedDependencies returns on which pods a pod of the graph depends.
func orderedDependencies(i int) (names []string) {
	if i > 0 {
		names = append(names, orderedName((i-1)/3))
	}
	if i > 4 && i%2 == 0 {
		names = append(names, orderedName(i/4))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// orderedPod returns a pod of the graph, which is ready after a moment and takes a moment
// to end.
func orderedPod(n *harness.Node, i int) string {
	name := orderedName(i)
	manifest := n.ScriptedPod(name, 300, "  hostNetwork: true", harness.ScriptedContainer{Name: "main",
		Script: "trap 'note term; sleep 0.2; note end; exit 0' TERM; note start; sleep 0.2; note ready; while true; do " +
			"sleep 0.05; done",
		Fields: fmt.Sprintf("readinessProbe: {exec: {command: [test, -e, /out/%s-main-ready]}, periodSeconds: 1, "+
			"timeoutSeconds: 300}", name)})
	if names := orderedDependencies(i); len(names) > 0 {
		manifest = strings.Replace(manifest, "{name: "+name+"}",
			fmt.Sprintf("{name: %s, annotations: {podstead.io/depends-on: %q}}", name, strings.Join(names, ", ")), 1)
	}
	return manifest
}

// awaitOrdered waits until the first count pods of the graph are ready. The times at which the runtime started them
// show the order.
func awaitOrdered(n *harness.Node, count int) {
	n.T.Helper()
	for i := range count {
		n.AwaitReady(orderedName(i))
	}
	for i := range count {
		name := orderedName(i)
		for _, dependency := range orderedDependencies(i) {
			info, err := os.Stat(filepath.Join(n.OutDir(), dependency+"-main-ready"))
			if err != nil {
				n.T.Fatal(err)
			}
			if started := n.Started(name, "main"); started.Before(info.ModTime()) {
				n.T.Errorf("%s started at %s, before %s was ready at %s", name, started, dependency, info.ModTime())
			}
		}
	}
}

// Twenty pods that depend on each other start in order, also if the daemon is killed
// meanwhile, and end in the reverse order when their files are removed.
func TestStartOrder(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		// In the reverse order, the last one first.
		for i := orderedPods - 1; i >= 0; i-- {
			n.WriteManifest(orderedName(i)+".yaml", orderedPod(n, i))
		}
		n.MustStart()
		n.AwaitStatus(orderedName(orderedPods-1), "waits", func(p v1.Pod) error {
			if p.Status.Reason != "DependencyNotReady" ||
				!strings.Contains(p.Status.Message,
					"waits for pod default/"+orderedDependencies(orderedPods - 1)[0]+", which is not Ready: ") {
				return fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
			}
			return nil
		})
		n.AwaitReady(orderedName(1))
		n.Restart()
		awaitOrdered(n, orderedPods)
		running := map[string]harness.Instance{}
		for i := range orderedPods {
			running[orderedName(i)] = n.AwaitRunning(orderedName(i))
		}
		// A dependency that restarts changes nothing for the others.
		n.CLI(0, []string{"restarting"}, "restart", orderedName(0))
		running[orderedName(0)] = n.AwaitOther(orderedName(0), running[orderedName(0)])
		n.AwaitReady(orderedName(0))
		for name, want := range running {
			n.MustStillRun(name, want)
		}
		for _, record := range []string{"-main-term", "-main-end"} {
			if err := os.Remove(filepath.Join(n.OutDir(), orderedName(0)+record)); err != nil {
				t.Fatal(err)
			}
		}

		// The daemon sees the removal of all files at once.
		pid := n.Pid()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		for i := range orderedPods {
			n.RemoveManifest(orderedName(i) + ".yaml")
		}
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		n.AwaitStatus(orderedName(0), "waits for its dependents", func(p v1.Pod) error {
			if p.Status.Reason != "WaitingForDependents" {
				return fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
			}
			return nil
		})
		for i := range orderedPods {
			n.AwaitRecorded(orderedName(i) + "-main-end")
		}
		for i := range orderedPods {
			for _, dependency := range orderedDependencies(i) {
				mustBeInOrder(n, 0, orderedName(i)+"-main-end", dependency+"-main-term")
			}
		}
	})
}

// Pods whose files are removed while the daemon does not run end in order too.
func TestEndOrderOfOrphans(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		const count = 5
		for i := range count {
			n.WriteManifest(orderedName(i)+".yaml", orderedPod(n, i))
		}
		n.MustStart()
		awaitOrdered(n, count)
		n.Kill()
		for i := range count {
			n.RemoveManifest(orderedName(i) + ".yaml")
		}
		n.MustStart()
		for i := range count {
			n.AwaitGone(orderedName(i))
		}
		for i := range count {
			for _, dependency := range orderedDependencies(i) {
				mustBeInOrder(n, 0, orderedName(i)+"-main-end", dependency+"-main-term")
			}
		}
	})
}

// The ordered pair of examples/ runs as it is.
func TestOrderedExample(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Kinds()[0]))
	example, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples", "ordered.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	n.WriteManifest("ordered.yaml", string(example))
	n.MustStart()
	n.Await("the client has read from the database", func() error {
		out, errs, status := n.Podstead("logs", "client", "--api-socket", n.Socket())
		if status != 0 || !strings.Contains(out, "42 rows") {
			return errors.New(out + errs)
		}
		return nil
	})
	p := n.AwaitReady("client")
	if p.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("the client was started before the database was ready: %+v", p.Status.ContainerStatuses)
	}
}
