package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// On a machine where containerd is installed but no runtime runs, one command is enough. The
// containerd that podstead starts outlives it, is found again, and is started again when it
// dies. Containers survive both.
func TestPrivateRuntime(t *testing.T) {
	t.Parallel()
	harness.PrivateNetwork.Lock()
	defer harness.PrivateNetwork.Unlock()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: the host has only one such network
			n := harness.PrivateNode(t, kind)
			n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
			n.MustStart()
			p := n.AwaitRunning("p")
			n.AwaitReady("p")
			runtime := runtimePid(n)

			if version, err := n.Runtime.CRI.Version(t.Context()); err != nil ||
				!strings.Contains(version, strings.TrimPrefix(string(kind), "containerd-")) {
				t.Errorf("the runtime is %s (%v), want %s", version, err, kind)
			}
			n.Restart()
			n.AwaitReady("p")
			n.MustStillRun("p", p)
			if now := runtimePid(n); now != runtime {
				t.Errorf("containerd was process %d and is %d after the daemon was killed", runtime, now)
			}

			// On a busy machine its shims response late.
			shim := parentOf(t, p.Pid)
			signal := func(s syscall.Signal) {
				if err := syscall.Kill(shim, s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			t.Cleanup(func() { _ = syscall.Kill(shim, syscall.SIGCONT) })
			harness.KillProcess(t, runtime)
			n.Await("containerd is started again", func() error { return privateContainerd(n, runtime) })
			time.Sleep(10 * time.Second) // twice as long as containerd waits by default
			signal(syscall.SIGCONT)
			runtime = awaitOtherRuntime(n, runtime)
			n.WriteManifest("q.yaml", harness.SleepPod("q", "one"))
			n.AwaitRunning("q")
			// Pods find each other in the network that podstead has created.
			n.AwaitLookup(p, "q.default.svc.cluster.local.", n.AwaitReady("q").Status.PodIP)
			n.MustStillRun("p", p)

			n.Kill()
			harness.KillProcess(t, runtime)
			n.MustStart()
			awaitOtherRuntime(n, runtime)
			n.AwaitReady("p")
			n.AwaitRunning("p") // the test's own connection recovers later than the daemon's
			n.MustStillRun("p", p)
			if err := n.Stop(); err != nil {
				t.Error(err)
			}
			n.MustStillRun("p", p)
		})
	}
}

// A private containerd in a network of the host, which is then removed, is restarted in podstead's own. The containers
// of pods keep running, new pods start, and the pods of the network that was removed can end.
func TestPrivateRuntimeWithRemovedNetwork(t *testing.T) {
	t.Parallel()
	harness.PrivateNetwork.Lock()
	defer harness.PrivateNetwork.Unlock()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: the host has only one such network
			n := harness.PrivateNode(t, kind)
			network := filepath.Join(n.Root, "net.d")
			harness.WriteAll(t, network, map[string]string{"10-bed.conflist": testbed.SystemCNI})
			n.Args = append(n.Args, "--cni-conf-dir", network)
			n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
			n.MustStart()
			p := n.AwaitRunning("p")
			if ip := n.AwaitReady("p").Status.PodIP; !strings.HasPrefix(ip, "10.210.") {
				t.Fatalf("the address of the pod is %s, want one of the network of the host", ip)
			}
			runtime := runtimePid(n)
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(network); err != nil {
				t.Fatal(err)
			}

			n.MustStart()
			runtime = awaitOtherRuntime(n, runtime)
			n.WriteManifest("q.yaml", harness.SleepPod("q", "one"))
			n.AwaitRunning("q")
			if ip := n.AwaitReady("q").Status.PodIP; strings.HasPrefix(ip, "10.210.") {
				t.Errorf("the address of a new pod is %s, of the network that was removed", ip)
			}
			n.AwaitReady("p")
			n.MustStillRun("p", p)
			n.RemoveManifest("p.yaml")
			n.AwaitGone("p")
			n.Restart()
			n.AwaitReady("q")
			if now := runtimePid(n); now != runtime {
				t.Errorf("containerd was process %d and is %d after another start", runtime, now)
			}
		})
	}
}

// privateContainerd returns nil if a process of the private containerd other than old exists,
// whether or not it responds.
func privateContainerd(n *harness.Node, old int) error {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have ended
		name, args, _ := strings.Cut(string(line), "\x00")
		if filepath.Base(name) == "containerd" && strings.Contains(args, filepath.Join(n.Root, "containerd")) &&
			file != fmt.Sprintf("/proc/%d/cmdline", old) {
			return nil
		}
	}
	return errors.New("no such process")
}

func runtimePid(n *harness.Node) int {
	n.T.Helper()
	pid, err := harness.Listener(n.Runtime.Socket)
	if err != nil {
		n.T.Fatal(err)
	}
	return pid
}

func awaitOtherRuntime(n *harness.Node, old int) int {
	n.T.Helper()
	var now int
	n.Await("the private containerd is started again", func() error {
		var err error
		if now, err = harness.Listener(n.Runtime.Socket); err == nil && now == old {
			err = errors.New("still the previous process")
		}
		return err
	})
	return now
}

// An endpoint is recorded only once a runtime has responded on it.
func TestMistypedEndpointIsNotRecorded(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		record, right := filepath.Join(n.Root, "runtime-endpoint"), n.Endpoint
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.Endpoint = "unix://" + filepath.Join(n.Dir(), "mistyped.sock")
		n.MustStart()
		n.AwaitStatusLine(1, "not ready")
		if text, err := os.ReadFile(record); !os.IsNotExist(err) {
			t.Errorf("recorded %q, %v", text, err)
		}
		n.Endpoint = right
		n.Restart()
		n.AwaitReady("p")
		n.Await("the endpoint is recorded", func() error {
			if text, err := os.ReadFile(record); strings.TrimSpace(string(text)) != right {
				return fmt.Errorf("recorded %q, %v", text, err)
			}
			return nil
		})
	})
}
