package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/test/testbed"
)

// privateSocket is the socket of podstead's own containerd, relative to the directory of the
// daemon's socket.
const privateSocket = "containerd/containerd.sock"

// privateNetwork is held by a test whose private runtime has the network that the host has only once.
var privateNetwork sync.Mutex

// On a machine where containerd is installed but no runtime runs, one command is enough. The
// containerd that podstead starts outlives it, is found again, and is started again when it
// dies. Containers survive both.
func TestPrivateRuntime(t *testing.T) {
	t.Parallel()
	privateNetwork.Lock()
	defer privateNetwork.Unlock()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: the host has only one such network
			n := privateNode(t, kind)
			n.writeManifest("p.yaml", sleepPod("p", "one"))
			n.start()
			p := n.awaitRunning("p")
			n.awaitReady("p")
			runtime := n.runtimePid()

			if version, err := n.rt.CRI.Version(t.Context()); err != nil || !strings.Contains(version, strings.TrimPrefix(string(kind), "containerd-")) {
				t.Errorf("the runtime is %s (%v), want %s", version, err, kind)
			}
			n.restart()
			n.awaitReady("p")
			n.mustStillRun("p", p)
			if now := n.runtimePid(); now != runtime {
				t.Errorf("containerd was process %d and is %d after the daemon was killed", runtime, now)
			}

			// On a busy machine its shims answer late.
			shim := parentOf(t, p.Pid)
			signal := func(s syscall.Signal) {
				if err := syscall.Kill(shim, s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			t.Cleanup(func() { _ = syscall.Kill(shim, syscall.SIGCONT) })
			killProcess(t, runtime)
			n.await("containerd is started again", func() error { return n.privateContainerd(runtime) })
			time.Sleep(10 * time.Second) // twice as long as containerd waits by default
			signal(syscall.SIGCONT)
			runtime = n.awaitOtherRuntime(runtime)
			n.writeManifest("q.yaml", sleepPod("q", "one"))
			n.awaitRunning("q")
			// Pods find each other in the network that podstead has created.
			n.awaitLookup(p, "q.default.svc.cluster.local.", n.awaitReady("q").Status.PodIP)
			n.mustStillRun("p", p)

			n.Kill()
			killProcess(t, runtime)
			n.start()
			n.awaitOtherRuntime(runtime)
			n.awaitReady("p")
			n.awaitRunning("p") // the test's own connection recovers later than the daemon's
			n.mustStillRun("p", p)
			if err := n.Stop(); err != nil {
				t.Error(err)
			}
			n.mustStillRun("p", p)
		})
	}
}

// privateNode returns a node without an endpoint. Its runtime is stopped at the end of the
// test.
func privateNode(t *testing.T, kind testbed.Kind) *node {
	t.Helper()
	b, err := testbed.NewNode(nodeName(), "")
	if err != nil {
		t.Fatal(err)
	}
	b.Env = []string{"PATH=" + kind.Path()}
	writeAll(t, filepath.Join(b.Root, "containerd/certs.d/_default"), map[string]string{"hosts.toml": testbed.HostsTOML(registry.Addr())})
	socket := filepath.Join(filepath.Dir(b.Socket()), privateSocket)
	cri, err := testbed.DialCRI(socket)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{Node: b, t: t, rt: &testbed.Runtime{Kind: kind, Socket: socket, CRI: cri}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the daemon's log:\n%s", lastLines(n.Log(), 40))
		}
		n.endNameserver()
		if pid, err := listener(socket); err == nil {
			n.removePods()
			killProcess(t, pid)
		}
		_ = cri.Close()
	})
	return n
}

// privateContainerd returns nil if a process of the private containerd other than old exists,
// whether or not it answers.
func (n *node) privateContainerd(old int) error {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		line, _ := os.ReadFile(file) // the process may have ended
		name, args, _ := strings.Cut(string(line), "\x00")
		if filepath.Base(name) == "containerd" && strings.Contains(args, filepath.Join(n.Root, "containerd")) && file != fmt.Sprintf("/proc/%d/cmdline", old) {
			return nil
		}
	}
	return errors.New("no such process")
}

func (n *node) runtimePid() int {
	n.t.Helper()
	pid, err := listener(n.rt.Socket)
	if err != nil {
		n.t.Fatal(err)
	}
	return pid
}

func (n *node) awaitOtherRuntime(old int) int {
	n.t.Helper()
	var now int
	n.await("the private containerd is started again", func() error {
		var err error
		if now, err = listener(n.rt.Socket); err == nil && now == old {
			err = errors.New("still the previous process")
		}
		return err
	})
	return now
}

// listener returns the process that listens on a unix socket.
func listener(socket string) (int, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if credErr != nil {
		return 0, credErr
	}
	return int(cred.Pid), nil
}

// killProcess kills a process and waits until it has ended.
func killProcess(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, fmt.Sprintf("process %d has ended", pid), func() error {
		if processExists(pid) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// An endpoint is recorded only once a runtime has answered on it.
func TestMistypedEndpointIsNotRecorded(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		record, right := filepath.Join(n.Root, "runtime-endpoint"), n.Endpoint
		n.writeManifest("p.yaml", sleepPod("p", "one"))
		n.Endpoint = "unix://" + filepath.Join(n.Dir(), "mistyped.sock")
		n.start()
		n.awaitStatusLine(1, "not ready")
		if text, err := os.ReadFile(record); !os.IsNotExist(err) {
			t.Errorf("recorded %q, %v", text, err)
		}
		n.Endpoint = right
		n.restart()
		n.awaitReady("p")
		n.await("the endpoint is recorded", func() error {
			if text, err := os.ReadFile(record); strings.TrimSpace(string(text)) != right {
				return fmt.Errorf("recorded %q, %v", text, err)
			}
			return nil
		})
	})
}
