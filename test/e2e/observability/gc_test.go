package observability

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// leaveDeadContainers creates dead instances of a pod's only container, as if it had crashed
// that often. Their restart numbers follow that of the existing one.
func leaveDeadContainers(n *harness.Node, name string, count int) {
	n.T.Helper()
	ctx := n.T.Context()
	list, err := n.Runtime.CRI.Containers(ctx, "io.kubernetes.pod.name", n.PodName(name))
	if err != nil || len(list) != 1 {
		n.T.Fatalf("%d containers of pod %q: %v", len(list), name, err)
	}
	first := list[0]
	sandboxes, err := n.Sandboxes(name)
	if err != nil || len(sandboxes) != 1 {
		n.T.Fatalf("%d sandboxes of pod %q: %v", len(sandboxes), name, err)
	}
	sandbox := &runtimeapi.PodSandboxConfig{
		Metadata: sandboxes[0].Metadata, Labels: sandboxes[0].Labels, Annotations: sandboxes[0].Annotations,
		LogDirectory: logs(n, name), Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	var g errgroup.Group
	g.SetLimit(4)
	for i := 1; i <= count; i++ {
		g.Go(func() error {
			annotations := maps.Clone(first.Annotations)
			annotations["io.kubernetes.container.restartCount"] = fmt.Sprint(i)
			c, err := n.Runtime.CRI.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
				PodSandboxId: first.PodSandboxId, SandboxConfig: sandbox,
				Config: &runtimeapi.ContainerConfig{
					Metadata: &runtimeapi.ContainerMetadata{Name: first.Metadata.Name, Attempt: uint32(i)},
					Image:    &runtimeapi.ImageSpec{Image: testbed.BusyboxImage},
					Command:  []string{"echo", "instance", fmt.Sprint(i)},
					Labels:   first.Labels, Annotations: annotations,
					LogPath: fmt.Sprintf("main/%d.log", i), Linux: &runtimeapi.LinuxContainerConfig{},
				},
			})
			if err != nil {
				return err
			}
			_, err = n.Runtime.CRI.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		n.T.Fatal(err)
	}
	n.Await("they have exited", func() error {
		list, err := n.Runtime.CRI.Containers(ctx, "io.kubernetes.pod.name", n.PodName(name))
		for _, c := range list {
			if c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				return fmt.Errorf("%s is %s", c.Id, c.State)
			}
		}
		return err
	})
}

// logs returns the directory with the logs of a pod's containers.
func logs(n *harness.Node, name string) string {
	n.T.Helper()
	found, err := filepath.Glob(filepath.Join(n.PodLogs, "default_"+n.PodName(name)+"_*"))
	if err != nil || len(found) != 1 {
		n.T.Fatalf("log directories of pod %q: %v %v", name, found, err)
	}
	return found[0]
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// A hundred dead containers are removed with their logs, except the last one, which is the
// previous instance. Another client's containers stay.
func TestDeadContainersAreRemoved(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.ScriptPod("p", "one", 2, "echo runs; trap 'exit 0' TERM; sleep 100000 & wait"))
		n.MustStart()
		first := n.AwaitRunning("p")
		n.AwaitReady("p")
		n.Kill()
		theirs := &testbed.BarePod{Name: "theirs-" + n.Name, Namespace: "default", UID: "theirs-" + n.Name,
			LogDir: t.TempDir(), Command: []string{"true"}}
		if err := n.Runtime.CRI.Start(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Runtime.CRI.Runtime.StopContainer(t.Context(),
			&runtimeapi.StopContainerRequest{ContainerId: first.ID}); err != nil {
			t.Fatal(err)
		}
		leaveDeadContainers(n, "p", 100)
		n.MustStart()
		n.AwaitOther("p", first)
		n.Await("the dead containers are removed", func() error {
			list, err := n.Runtime.CRI.Containers(t.Context(), "io.kubernetes.pod.name", n.PodName("p"))
			if err != nil {
				return err
			}
			var left []uint32
			for _, c := range list {
				left = append(left, c.Metadata.Attempt)
			}
			slices.Sort(left)
			if len(left) < 2 || left[0] != 100 || len(left) != 2 {
				return fmt.Errorf("instances %v are left, want 100 and the one after it", left)
			}
			return nil
		}, 20*time.Minute)
		n.Await("their logs are removed", func() error {
			if got := strings.Join(names(t, filepath.Join(logs(n, "p"), "main")), " "); got != "100.log 101.log" {
				return fmt.Errorf("logs %s are left", got)
			}
			if got := names(t, n.ContainerLogs); len(got) != 1 {
				return fmt.Errorf("links %v are left, want the one of the running container", got)
			}
			return nil
		})
		if out, errs, status := n.Podstead("logs", "-p", "p", "--api-socket", n.Socket()); status != 0 ||
			out != "instance 100\n" {
			t.Errorf("logs -p exited with %d: %s%s", status, out, errs)
		}
		list, err := n.Runtime.CRI.Containers(t.Context(), "io.kubernetes.pod.name", theirs.Name)
		if err != nil || len(list) != 1 || list[0].State != runtimeapi.ContainerState_CONTAINER_EXITED {
			t.Errorf("the other client's dead container: %v %v", list, err)
		}
	})
}
