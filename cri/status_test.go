package cri_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func mustStatus(t testing.TB, c *cri.Client, uid string) *cri.PodStatus {
	t.Helper()
	s, err := c.PodStatus(t.Context(), types.UID(uid))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPodStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		last := filepath.Join(t.TempDir(), "last-words")
		ctx := t.Context()
		// Another client uses the same UID; its pod is ignored.
		f.Put(critest.Pod{UID: "uid-1", Name: "twin", Namespace: "default", Containers: []string{"web"}})

		first, _ := startPod(t, c, "uid-1", "web-node")
		time.Sleep(time.Minute)
		if err := c.StopPodSandbox(ctx, first); err != nil {
			t.Fatal(err)
		}
		pod := podConfig("uid-1", "web-node", 1)
		second, err := c.RunPodSandbox(ctx, pod, "")
		if err != nil {
			t.Fatal(err)
		}
		config := containerConfig(pod, "web", 1)
		config.Annotations[cri.AnnotationTerminationMessageHost] = last
		id, err := c.CreateContainer(ctx, second, config, pod)
		if err != nil {
			t.Fatal(err)
		}
		if k := mustStatus(t, c, "uid-1").Newest("web"); k.State != cri.StateCreated || !k.StartedAt.IsZero() ||
			!k.FinishedAt.IsZero() {
			t.Errorf("created: %+v", k)
		}
		if err := c.StartContainer(ctx, id); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(last, []byte("not yet"), 0o600); err != nil {
			t.Fatal(err)
		}
		s := mustStatus(t, c, "uid-1")
		if k := s.Newest("web"); k.State != cri.StateRunning || k.StartedAt.IsZero() || k.Message != "" ||
			k.RestartCount != 1 {
			t.Errorf("running: %+v", k)
		}
		f.End("web-node/web", critest.End{Code: 3, Reason: "OOMKilled", Message: "by the runtime",
			LastWords: "out of \xff memory"})

		s = mustStatus(t, c, "uid-1")
		if s.Name != "web-node" || s.Namespace != "default" || s.At.IsZero() {
			t.Errorf("status: %+v", s)
		}
		if len(s.Sandboxes) != 2 || s.Sandboxes[0].ID != second || !s.Sandboxes[0].Ready || s.Sandboxes[0].Attempt != 1 ||
			s.Sandboxes[1].Ready {
			t.Errorf("sandboxes: %+v", s.Sandboxes)
		}
		if len(s.IPs) != 1 || !slices.Equal(s.IPs, s.Sandboxes[0].IPs) || s.Sandboxes[1].IPs != nil {
			t.Errorf("IPs: %v", s.IPs)
		}
		if len(s.Containers) != 2 || s.Containers[0].ID != id || s.Containers[1].ExitCode != 137 {
			t.Fatalf("containers: %+v", s.Containers)
		}
		k := s.Containers[0]
		if k.ExitCode != 3 || k.Reason != "OOMKilled" || k.Message != "by the runtime: out of \uFFFD memory" ||
			k.FinishedAt.Before(k.StartedAt) {
			t.Errorf("exited: %+v", k)
		}
		if k.ImageRef == "" || k.Image != "busybox" || k.Hash != "ab12" || k.TerminationPolicy != "File" ||
			k.TerminationMessagePath != "/dev/termination-log" {
			t.Errorf("exited: %+v", k)
		}
	})
}

func TestPodStatusOfMissingPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mustStatus(t, critest.New(t).Client(t), "uid-1")
		if s.UID != "uid-1" || len(s.Sandboxes)+len(s.Containers)+len(s.IPs) != 0 || s.At.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

func TestPodStatusLeavesOutWhatVanished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		sandbox, container := startPod(t, c, "uid-1", "web")
		f.StaleLists(-1)
		if err := c.RemoveContainer(t.Context(), container); err != nil {
			t.Fatal(err)
		}
		if s := mustStatus(t, c, "uid-1"); len(s.Containers) != 0 || len(s.Sandboxes) != 1 {
			t.Errorf("after the container was removed: %+v", s)
		}
		if err := c.RemovePodSandbox(t.Context(), sandbox); err != nil {
			t.Fatal(err)
		}
		if s := mustStatus(t, c, "uid-1"); len(s.Containers) != 0 || len(s.Sandboxes) != 0 {
			t.Errorf("after the sandbox was removed: %+v", s)
		}
	})
}

// TestPodStatusIsComplete: with a partial status, containers would be started
// twice.
func TestPodStatusIsComplete(t *testing.T) {
	for _, method := range []string{"ListPodSandbox", "ListContainers", "PodSandboxStatus", "ContainerStatus"} {
		synctest.Test(t, func(t *testing.T) {
			f := critest.New(t)
			c := f.Client(t)
			startPod(t, c, "uid-1", "web")
			f.Inject(method, critest.Fault{Before: critest.Err(codes.Internal, "no")})
			if s, err := c.PodStatus(t.Context(), "uid-1"); err == nil || s != nil {
				t.Errorf("%s failed: %+v %v", method, s, err)
			}
			f.Inject(method, critest.Fault{Times: 2, Disconnect: true})
			if _, err := c.PodStatus(t.Context(), "uid-1"); !errors.Is(err, cri.ErrUnavailable) {
				t.Errorf("%s lost: %v", method, err)
			}
		})
	}
}

func TestPodStatusOnTheHostsNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := critest.New(t).Client(t)
		pod := podConfig("uid-1", "web", 0)
		pod.Linux = &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
			NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
		}}
		if _, err := c.RunPodSandbox(t.Context(), pod, ""); err != nil {
			t.Fatal(err)
		}
		if s := mustStatus(t, c, "uid-1"); !s.Sandboxes[0].HostNetwork || len(s.IPs) != 0 {
			t.Errorf("%+v", s)
		}
	})
}
