package faults

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A kubelet of the host keeps podstead from starting its first pod, but not from supervising
// pods that run.
func TestKubeletOnTheSameRuntime(t *testing.T) {
	t.Parallel()
	// No other test may find this kubelet.
	rt := harness.StartRuntime(t, testbed.Containerd24)
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Errorf("cannot clear the runtime: %v", err)
		}
	})
	n, fresh := harness.NewNode(t, rt), harness.NewNode(t, rt)
	n.WriteManifest("p.yaml", harness.SleepPod("p", "x"))
	n.MustStart()
	first := n.AwaitRunning("p")
	n.Kill()

	kubelet := exec.Command(testbed.PortServer())
	kubelet.Args = []string{"kubelet", "--container-runtime-endpoint=" + n.Runtime.Endpoint()}
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
	n.MustStart()
	n.AwaitReady("p")
	n.MustStillRun("p", first)
	n.Await("an event names the kubelet", func() error {
		if got := n.NodeEvents("KubeletConflict"); len(got) != 1 || !strings.Contains(got[0], "a kubelet (pid") {
			return fmt.Errorf("events KubeletConflict: %q", got)
		}
		return nil
	})
}
