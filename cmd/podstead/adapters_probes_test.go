package main

import (
	"context"
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
		answer       critest.ExecFunc
		timedOut, ok bool
		output       string
	}{
		"an answer has both outputs": {func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			return &runtimeapi.ExecSyncResponse{Stdout: []byte("a"), Stderr: []byte("b"), ExitCode: 3}, nil
		}, false, true, "ab"},
		"a command that the runtime ended is a result": {func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			time.Sleep(2 * time.Second)
			return nil, critest.Err(codes.DeadlineExceeded, "timeout 2s exceeded")
		}, true, true, ""},
		"a runtime that hangs is an error": {func(ctx context.Context, _ critest.Container, _ *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, false, false, ""},
		"so is one that refuses": {func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
			return nil, critest.Err(codes.Unknown, "no such shim")
		}, false, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := critest.New(t)
				fake.OnExec(c.answer)
				client, err := cri.Dial(fake.Options())
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
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
				r, err := containerExec{client}.Exec(t.Context(), id, []string{"true"}, 2*time.Second)
				if (err == nil) != c.ok || r.TimedOut != c.timedOut || string(r.Output) != c.output {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}
