package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/test/testbed"
)

const (
	// garbagePods pods have deadEach dead containers each, in addition to the running one.
	garbagePods = 100
	deadEach    = 10
)

// measureGarbage measures how long the selection among a thousand dead containers takes, and
// the time until they are removed.
func measureGarbage(ctx context.Context, r *report, opts options) error {
	fake := critest.Start()
	defer fake.Close()
	socket := filepath.Join(testbed.Dir(), "garbage.sock")
	if err := fake.ServeUnix(socket); err != nil {
		return err
	}
	node, err := testbed.NewNode("garbage", "unix://"+socket)
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	for i := range garbagePods {
		name := fmt.Sprintf("p%d", i)
		if err := node.Write(name+".yaml", manifest(name, "one")); err != nil {
			return err
		}
	}
	if err := awaitAll(ctx, node, garbagePods); err != nil {
		return err
	}
	instance, err := instanceOf(ctx, socket)
	if err != nil {
		return err
	}
	client, err := cri.Dial(cri.Options{Endpoint: "unix://" + socket, Instance: instance})
	if err != nil {
		return err
	}
	defer client.Close()
	runtime, err := testbed.DialCRI(socket)
	if err != nil {
		return err
	}
	defer runtime.Close()
	// As if they had crashed while no daemon ran.
	node.Kill()
	if err := createDeadContainers(ctx, runtime); err != nil {
		return err
	}
	observed, err := client.List(ctx)
	if err != nil {
		return err
	}
	var plans []float64
	for range 10 * opts.rounds {
		begin := time.Now()
		garbage := gc.SelectContainers(observed.Own, gc.ContainerPolicy{MaxTotal: garbagePods * deadEach / 2}, begin)
		plans = append(plans, float64(time.Since(begin).Microseconds())/1e3)
		if len(garbage.Pods) != garbagePods {
			return fmt.Errorf("garbage of %d pods was found", len(garbage.Pods))
		}
	}
	begin := time.Now()
	if err := node.Start(ctx); err != nil {
		return err
	}
	if err := awaitContainers(ctx, runtime, 2*garbagePods); err != nil {
		return err
	}
	took := time.Since(begin).Seconds()
	dead := fmt.Sprintf("%d dead containers", garbagePods*deadEach)
	r.add(row{Runtime: "fake", Name: "GC selection among " + dead, Unit: "ms"}, plans, nil, atMost(10, "≤ 10 ms"))
	r.add(row{Runtime: "fake", Name: "from the daemon's start until " + dead + " are removed", Unit: "s"}, []float64{took},
		nil, bound{})
	return nil
}

// createDeadContainers creates dead instances of each pod's container.
func createDeadContainers(ctx context.Context, c *testbed.CRI) error {
	list, err := c.Containers(ctx, "", "")
	if err != nil {
		return err
	}
	return inParallel(len(list), func(i int) error {
		k := list[i]
		if k.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			return nil
		}
		for n := range deadEach {
			attempt := k.Metadata.Attempt + uint32(n) + 1
			annotations := maps.Clone(k.Annotations)
			annotations["io.kubernetes.container.restartCount"] = fmt.Sprint(attempt)
			made, err := c.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
				PodSandboxId: k.PodSandboxId,
				Config: &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: k.Metadata.Name, Attempt: attempt},
					Image:    k.Image, Labels: k.Labels, Annotations: annotations, Linux: &runtimeapi.LinuxContainerConfig{},
				},
				SandboxConfig: &runtimeapi.PodSandboxConfig{},
			})
			if err != nil {
				return err
			}
			if _, err := c.Runtime.StartContainer(ctx,
				&runtimeapi.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
				return err
			}
			if _, err := c.Runtime.StopContainer(ctx,
				&runtimeapi.StopContainerRequest{ContainerId: made.ContainerId}); err != nil {
				return err
			}
		}
		_, err := c.Runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: k.Id})
		return err
	})
}

// awaitContainers waits until at most this many containers exist.
func awaitContainers(ctx context.Context, c *testbed.CRI, most int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		list, err := c.Containers(ctx, "", "")
		if err == nil && len(list) <= most {
			return nil
		}
		if waited := sleep(ctx, 20*time.Millisecond); waited != nil {
			return errors.Join(fmt.Errorf("%d containers are left, want %d", len(list), most), waited, err)
		}
	}
}
