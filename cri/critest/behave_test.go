package critest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
)

func TestBehave(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		n.Behave("*", critest.Behaviour{RunFor: 30 * time.Second, ExitCode: 9})
		n.Behave("slow", critest.Behaviour{StopAfter: 5 * time.Second, TermCode: 6})
		n.Behave("web-node/once", critest.Behaviour{ExitAtOnce: true})
		n.Behave("once", critest.Behaviour{ExitAtOnce: true, ExitCode: 1})

		n.start(t, "timed", 0)
		slow := n.start(t, "slow", 0)
		n.start(t, "once", 0)
		code := func(name string) int32 {
			c, _ := n.Fake.Newest(name)
			if c.Running() {
				return -1
			}
			return c.ExitCode
		}
		if code("timed") != -1 || code("slow") != -1 || code("once") != 0 {
			t.Errorf("at first: %d %d %d", code("timed"), code("slow"), code("once"))
		}
		start := time.Now()
		if err := n.StopContainer(t.Context(), slow, 10*time.Second); err != nil || time.Since(start) != 5*time.Second ||
			code("slow") != 6 {
			t.Errorf("stopped after %v with %d: %v", time.Since(start), code("slow"), err)
		}
		slow = n.start(t, "slow", 1)
		start = time.Now()
		if err := n.StopContainer(t.Context(), slow, 2*time.Second); err != nil || time.Since(start) != 2*time.Second ||
			code("slow") != 137 {
			t.Errorf("killed after %v with %d: %v", time.Since(start), code("slow"), err)
		}
		// A grace period of zero means SIGKILL at once.
		slow = n.start(t, "slow", 2)
		start = time.Now()
		if err := n.StopContainer(t.Context(), slow, 0); err != nil || time.Since(start) != 0 || code("slow") != 137 {
			t.Errorf("killed after %v with %d: %v", time.Since(start), code("slow"), err)
		}
		// When the caller goes away, the container has been asked to
		// terminate and is not killed.
		slow = n.start(t, "slow", 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.StopContainer(ctx, slow, time.Minute); err == nil || code("slow") != -1 {
			t.Errorf("after the caller was cancelled: %v, %d", err, code("slow"))
		}
		n.Until(t, "the end", func() bool { return code("slow") == 6 })
		n.Until(t, "the end of its time", func() bool { return code("timed") == 9 })
	})
}

func TestLogsAndExec(t *testing.T) {
	inNode(t, func(t *testing.T, n *node) {
		n.WriteLogs()
		n.pod = podConfig("uid-2", "logged", 0)
		n.pod.LogDirectory = t.TempDir()
		var err error
		if n.sandbox, err = n.RunPodSandbox(t.Context(), n.pod, ""); err != nil {
			t.Fatal(err)
		}
		config := containerConfig(n.pod, "web", 0)
		config.LogPath = "web/0.log"
		id, err := n.CreateContainer(t.Context(), n.sandbox, config, n.pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.StartContainer(t.Context(), id); err == nil {
			t.Error("it started without a log directory")
		}
		log := filepath.Join(n.pod.LogDirectory, "web", "0.log")
		if err := os.Mkdir(filepath.Dir(log), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := n.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(log, log+".old"); err != nil {
			t.Fatal(err)
		}
		if err := n.ReopenContainerLog(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(log); err != nil {
			t.Error(err)
		}

		n.OnExec(func(_ context.Context, c critest.Container, r *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
			error) {
			if r.Cmd[0] == "no" {
				return nil, critest.Err(codes.Unknown, "no such command")
			}
			return &runtimeapi.ExecSyncResponse{Stdout: []byte(c.Pod + "/" + c.Name), ExitCode: int32(r.Timeout)}, nil
		})
		got, err := n.ExecSync(t.Context(), id, []string{"which"}, 1500*time.Millisecond)
		if err != nil || string(got.Stdout) != "logged/web" || got.ExitCode != 2 {
			t.Errorf("exec: %+v %v", got, err)
		}
		if _, err := n.ExecSync(t.Context(), id, []string{"no"}, time.Second); err == nil {
			t.Error("exec in a container that does not exist")
		}
	})
}
