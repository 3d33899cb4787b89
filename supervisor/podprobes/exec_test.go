package podprobes

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestContainerExec(t *testing.T) {
	for name, c := range map[string]struct {
		response     critest.ExecFunc
		timedOut, ok bool
		output       string
	}{
		"an answer has both outputs": {
			func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
				return &runtimeapi.ExecSyncResponse{Stdout: []byte("a"), Stderr: []byte("b"), ExitCode: 3}, nil
			}, false, true, "ab"},
		"a command that the runtime ended is a result": {
			func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
				time.Sleep(2 * time.Second)
				return nil, critest.Err(codes.DeadlineExceeded, "timeout 2s exceeded")
			}, true, true, ""},
		"a runtime that hangs is an error": {
			func(ctx context.Context, _ critest.Container, _ *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}, false, false, ""},
		"so is one that refuses": {func(context.Context, critest.Container,
			*runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			return nil, critest.Err(codes.Unknown, "no such shim")
		}, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, id := execContainer(t, c.response)
				r, err := Exec{client, MaxProbeOutput}.Exec(t.Context(), id, []string{"true"}, 2*time.Second)
				if (err == nil) != c.ok || r.TimedOut != c.timedOut || string(r.Output) != c.output {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// execContainer returns a client of a fake runtime that runs commands, and a running
// container.
func execContainer(t *testing.T,
	response func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
		error)) (*cri.Client, string) {
	t.Helper()
	fake := critest.New(t)
	fake.OnExec(response)
	client, err := cri.Dial(fake.Options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	pod := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "n", Uid: "u"}}
	sandbox, err := client.RunPodSandbox(t.Context(), pod, "")
	if err != nil {
		t.Fatal(err)
	}
	fake.SetImages("img:1")
	id, err := client.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Image: &runtimeapi.ImageSpec{Image: "img:1"},
	}, pod)
	if err == nil {
		err = client.StartContainer(t.Context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return client, id
}

// The output of the commands of probes and hooks is bounded.
func TestProbeOutputIsBounded(t *testing.T) {
	client, id := execContainer(t,
		func(_ context.Context, _ critest.Container, q *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			size, err := strconv.Atoi(q.Cmd[0])
			return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, size/2), Stderr: make([]byte, size-size/2)}, err
		})
	for _, c := range []struct {
		exec Exec
		size int
		want error
	}{
		{Exec{client, MaxProbeOutput}, MaxProbeOutput, nil},
		{Exec{client, MaxProbeOutput}, MaxProbeOutput + 100, cri.ErrOutputTooLarge},
		{Exec{client, MaxHookOutput}, MaxHookOutput, nil},
		{Exec{client, MaxHookOutput}, MaxHookOutput + 100, cri.ErrOutputTooLarge},
	} {
		r, err := c.exec.Exec(t.Context(), id, []string{strconv.Itoa(c.size)}, time.Second)
		if !errors.Is(err, c.want) || err == nil && len(r.Output) != c.size {
			t.Errorf("%d bytes, at most %d: %d bytes, %v, want %v", c.size, c.exec.MaxOutput, len(r.Output), err, c.want)
		}
	}
}
