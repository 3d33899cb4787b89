package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// listSizes returns the sizes of the runtime's lists of sandboxes and containers.
func listSizes(b *supervisorHarness) (sandboxes, containers int) {
	for _, s := range b.fake.Sandboxes() {
		sandboxes += proto.Size(&runtimeapi.PodSandbox{Id: s.ID, Metadata: s.Config.Metadata, Labels: s.Config.Labels,
			Annotations: s.Config.Annotations})
	}
	for _, c := range b.fake.Containers() {
		containers += proto.Size(&runtimeapi.Container{Id: c.ID, PodSandboxId: c.SandboxID, Metadata: c.Config.Metadata,
			Image:  c.Config.Image,
			Labels: c.Config.Labels, Annotations: c.Config.Annotations})
	}
	return sandboxes, containers
}

// Whatever their authors put into the pods of a full node, the runtime's lists stay small, and
// the next daemon finds all that runs.
func TestListsOfAFullNodeStaySmall(t *testing.T) {
	const (
		pods  = 22 // a fifth of a full node
		large = 100_000
		most  = 4 << 20 / 5
	)
	hook := func(size int) *v1.Lifecycle {
		return &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
			Exec: &v1.ExecAction{Command: []string{strings.Repeat("a", size)}}}}
	}
	containers := func(pod *v1.Pod, n int, change func(c *v1.Container)) {
		first := pod.Spec.Containers[0]
		pod.Spec.Containers = nil
		for i := range n {
			c := *first.DeepCopy()
			c.Name = fmt.Sprintf("c%d", i)
			change(&c)
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	for name, test := range map[string]struct {
		source manifest.Source
		change func(pod *v1.Pod)
	}{
		"termination message paths": {manifest.SourceFile, func(pod *v1.Pod) {
			pod.Spec.Containers[0].TerminationMessagePath = "/" + strings.Repeat("a", large)
		}},
		"objects": {manifest.SourceFile, func(pod *v1.Pod) {
			containers(pod, 2, func(c *v1.Container) {
				for i := range 120 {
					c.EnvFrom = append(c.EnvFrom, v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{
						LocalObjectReference: v1.LocalObjectReference{Name: fmt.Sprintf("%s-%d", strings.Repeat("a", 240), i)},
						Optional:             new(true)}})
				}
			})
		}},
		"identifying annotations": {manifest.SourceAPI, func(pod *v1.Pod) {
			pod.Annotations[podinfo.AnnotationHash] = strings.Repeat("a", large)
			pod.Annotations[podinfo.AnnotationTemplate] = strings.Repeat("b", large)
		}},
		"hooks of many containers": {manifest.SourceFile, func(pod *v1.Pod) {
			containers(pod, 12, func(c *v1.Container) {
				c.Lifecycle = hook(8000)
				for i := range 100 {
					c.Ports = append(c.Ports, v1.ContainerPort{ContainerPort: int32(i + 1), Protocol: v1.ProtocolTCP})
				}
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newSupervisorHarness(t, false)
				defer b.kill()
				withObjects(b)
				var all []*v1.Pod
				for i := range pods {
					pod := testPod(fmt.Sprint("p", i), types.UID(fmt.Sprint("u", i)), "r1")
					if test.source == manifest.SourceAPI {
						pod = boundPod(pod.Name, pod.UID)
					}
					test.change(pod)
					all = append(all, pod)
				}
				running := func() bool {
					n := 0
					for _, c := range b.fake.Containers() {
						if c.Running() {
							n++
						}
					}
					return n == pods*len(all[0].Spec.Containers)
				}
				b.start(test.source).config.deliver(test.source, all...)
				b.until(5*time.Minute, "all pods run", running)
				if sandboxes, containers := listSizes(b); sandboxes > most || containers > most {
					t.Errorf("the lists are %d and %d bytes", sandboxes, containers)
				}
				created := b.fake.Calls("CreateContainer")
				b.kill()
				d := b.start(test.source)
				d.config.deliver(test.source, all...)
				b.until(5*time.Minute, "all pods are found", func() bool {
					for _, pod := range all {
						if d.status(pod.UID).Phase != v1.PodRunning {
							return false
						}
					}
					return true
				})
				b.after(time.Minute)
				if again := b.fake.Calls("CreateContainer"); again != created || !running() {
					t.Errorf("%d containers were created, %d after the restart", created, again)
				}
				b.fake.Check(t)
			})
		})
	}
}

// listedContainer is the most bytes that a container of a pod with many containers may need in
// the runtime's list, which package cluster relies on: it limits their number.
const listedContainer = 2000

// A pod with many containers, each of which has as much as is stored with it, has a list of
// limited size.
func TestListOfManyContainersStaysSmall(t *testing.T) {
	const count, large = 64, 100_000
	synctest.Test(t, func(t *testing.T) {
		b := newSupervisorHarness(t, false)
		defer b.kill()
		withObjects(b)
		pod := boundPod(strings.Repeat("p", 150), "u1")
		pod.Namespace = strings.Repeat("n", 63)
		pod.Annotations[podinfo.AnnotationHash] = strings.Repeat("a", large)
		first := pod.Spec.Containers[0]
		pod.Spec.Containers = nil
		for i := range count {
			c := *first.DeepCopy()
			c.Name = fmt.Sprintf("%s%02d", strings.Repeat("c", 61), i)
			c.Image = "registry.example/" + strings.Repeat("i", 200) + ":" + strings.Repeat("t", 127)
			c.TerminationMessagePath = "/" + strings.Repeat("a", large)
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
				Exec: &v1.ExecAction{Command: []string{strings.Repeat("a", 8000)}}}}
			for j := range 20 {
				c.Ports = append(c.Ports, v1.ContainerPort{Name: fmt.Sprint("p", j), ContainerPort: int32(100*i + j + 1),
					Protocol: v1.ProtocolTCP})
				c.EnvFrom = append(c.EnvFrom, v1.EnvFromSource{ConfigMapRef: &v1.ConfigMapEnvSource{
					LocalObjectReference: v1.LocalObjectReference{Name: fmt.Sprintf("%s-%d", strings.Repeat("a", 240), j)},
					Optional:             new(true)}})
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
		b.until(5*time.Minute, "all containers are created", func() bool { return len(b.fake.Containers()) == count })
		if _, size := listSizes(b); size > count*listedContainer {
			t.Errorf("a container needs %d bytes in the list", size/count)
		} else {
			t.Logf("a container needs %d bytes in the list", size/count)
		}
	})
}
