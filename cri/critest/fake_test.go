package critest_test

import (
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func podConfig(uid, name string, attempt uint32) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: uid, Attempt: attempt},
		Labels: map[string]string{
			cri.LabelPodUID: uid, cri.LabelPodName: name, cri.LabelPodNamespace: "default", cri.LabelInstance: critest.Instance,
		},
		Annotations: map[string]string{"kubernetes.io/config.source": "file"},
	}
}

func containerConfig(pod *runtimeapi.PodSandboxConfig, name string, attempt uint32) *runtimeapi.ContainerConfig {
	labels := map[string]string{cri.LabelContainerName: name}
	for k, v := range pod.Labels {
		labels[k] = v
	}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt},
		Image:    &runtimeapi.ImageSpec{Image: "busybox"},
		Labels:   labels,
	}
}

func TestLifeInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		ctx := t.Context()
		pod := podConfig("uid-1", "web-node", 0)
		sandbox, err := c.RunPodSandbox(ctx, pod, "")
		if err != nil {
			t.Fatal(err)
		}
		id, err := c.CreateContainer(ctx, sandbox, containerConfig(pod, "web", 0), pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.StartContainer(ctx, id); err != nil {
			t.Fatal(err)
		}
		seen, err := c.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if len(seen.Own) != 1 || len(seen.Foreign) != 0 || seen.Own[0].Containers[0].State != cri.StateRunning {
			t.Fatalf("list: %+v", seen)
		}
		f.Behave("web", critest.Behaviour{IgnoreTerm: true})
		start := time.Now()
		if err := c.StopContainer(ctx, id, 7*time.Second); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 7*time.Second {
			t.Errorf("a container that ignores SIGTERM was stopped after %v", took)
		}
		s, err := c.PodStatus(ctx, "uid-1")
		if err != nil {
			t.Fatal(err)
		}
		if k := s.Newest("web"); k == nil || k.ExitCode != 137 || k.Reason != "Error" || len(s.IPs) != 1 {
			t.Errorf("status: %+v", s)
		}
		f.Check(t)
	})
}
