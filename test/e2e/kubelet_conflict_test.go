package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// A kubelet of the host keeps podstead from starting its first pod, but not from supervising
// pods that run.
func TestKubeletOnTheSameRuntime(t *testing.T) {
	t.Parallel()
	// No other test may find this kubelet.
	rt := startRuntime(t, testbed.Containerd24)
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("cannot clear the runtime: %v", err)
		}
	})
	n, fresh := newNode(t, rt), newNode(t, rt)
	n.writeManifest("p.yaml", sleepPod("p", "x"))
	n.start()
	first := n.awaitRunning("p")
	n.Kill()

	kubelet := exec.Command(testbed.PortServer())
	kubelet.Args = []string{"kubelet", "--container-runtime-endpoint=" + n.rt.Endpoint()}
	// Its ports may be taken on the host.
	kubelet.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := kubelet.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kubelet.Process.Kill(); _ = kubelet.Wait() })
	out, err := fresh.Command(fresh.Flags()...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "a kubelet (pid") {
		t.Fatalf("%v: %s, want an error that names the kubelet", err, out)
	}
	n.start()
	n.awaitReady("p")
	n.mustStillRun("p", first)
	n.await("an event names the kubelet", func() error {
		if got := n.nodeEvents("KubeletConflict"); len(got) != 1 || !strings.Contains(got[0], "a kubelet (pid") {
			return fmt.Errorf("events KubeletConflict: %q", got)
		}
		return nil
	})
}

// nodeEvents returns the events of the node with a reason.
func (n *node) nodeEvents(reason string) (messages []string) {
	n.t.Helper()
	body, err := n.Get(n.t.Context(), "/podstead/v1/events")
	if err != nil {
		n.t.Fatal(err)
	}
	var list v1.EventList
	if err := json.Unmarshal(body, &list); err != nil {
		n.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}
