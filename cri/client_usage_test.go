package cri_test

import (
	"errors"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestStats(t *testing.T) {
	f := critest.New(t)
	c := f.Client(t)
	labels := map[string]string{cri.LabelInstance: critest.Instance}
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Uid: "u", Namespace: "n"},
		Labels: labels}
	b, err := c.RunPodSandbox(t.Context(), sandbox, "")
	if err != nil {
		t.Fatal(err)
	}
	start := func(name string, labels map[string]string) string {
		id, err := c.CreateContainer(t.Context(), b, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: name}, Image: &runtimeapi.ImageSpec{Image: "image"}, Labels: labels,
		}, sandbox)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := start("x", labels)
	start("foreign", map[string]string{cri.LabelInstance: "another"})
	f.SetStats("x", critest.Stats{CPU: 3 * time.Second, Memory: 500, Written: 70, Inodes: 7})

	containers, err := c.ContainerUsage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(containers) != 1 || containers[0].ID != id {
		t.Fatalf("%+v: want only our containers", containers)
	}
	if s := containers[0]; s.CPU.Total != 3*time.Second || s.WorkingSet() != 500 || s.Memory.Usage != 500 ||
		s.Writable.Used != 70 || s.Writable.Inodes != 7 || s.Writable.Mount == "" || time.Since(s.At) > time.Minute {
		t.Errorf("%+v", s)
	}
	sandboxes, err := c.SandboxUsage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(sandboxes) != 1 || sandboxes[0].ID != b || sandboxes[0].CPU.Total != 3*time.Second ||
		*sandboxes[0].Processes != 3 ||
		len(sandboxes[0].Interfaces) != 1 || sandboxes[0].Interfaces[0].RxBytes != 500 {
		t.Errorf("%+v", sandboxes)
	}
	images, layers, err := c.ImageUsage(t.Context())
	if err != nil || len(images) != 1 || len(layers) != 1 || images[0].Mount == "" {
		t.Errorf("%+v, %+v, %v", images, layers, err)
	}

	f.NoStats()
	if _, err := c.ContainerUsage(t.Context()); !errors.Is(err, cri.ErrUnimplemented) {
		t.Errorf("runtime without stats: %v", err)
	}
	if _, err := c.SandboxUsage(t.Context()); !errors.Is(err, cri.ErrUnimplemented) {
		t.Errorf("runtime without stats: %v", err)
	}
}
