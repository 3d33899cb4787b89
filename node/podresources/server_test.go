package podresources

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
)

type fakeDevices struct{}

func (fakeDevices) Allocated(uid types.UID) map[string]map[v1.ResourceName][]string {
	if uid != "u-web" {
		return nil
	}
	return map[string]map[v1.ResourceName][]string{"main": {"example.com/serial": {"b", "a"}},
		"init": {"example.com/serial": {"c"}}}
}

func (fakeDevices) Allocatable() map[v1.ResourceName][]string {
	return map[v1.ResourceName][]string{"example.com/serial": {"a", "b", "c"}}
}

func (fakeDevices) NUMANodes(name v1.ResourceName, id string) []int {
	if name == "example.com/serial" && id == "b" {
		return []int{0, 1}
	}
	return nil
}

type fakeCPUs struct{}

func (fakeCPUs) Assigned(uid types.UID, container string) cpus.Set {
	if uid == "u-web" && container == "sidecar" {
		return cpus.NewSet(2, 3)
	}
	return nil
}

func (fakeCPUs) Assignable() cpus.Set { return cpus.NewSet(1, 2, 3) }

type fakeMemory struct{}

func (fakeMemory) Assigned(uid types.UID, container string) ([]int, memory.Amounts) {
	if uid == "u-web" && container == "main" {
		return []int{0, 1}, memory.Amounts{"memory": 64, "hugepages-2Mi": 2 << 20}
	}
	return nil, nil
}

func (fakeMemory) Assignable() memory.Nodes {
	return memory.Nodes{1: {"memory": 100}, 0: {"memory": 200, "hugepages-2Mi": 0}}
}

// serve serves the API for three pods, one of which has ended.
func serve(t *testing.T, requested func(version, call string, err error)) *grpc.ClientConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "podresources") // a short path: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	always := v1.ContainerRestartPolicyAlways
	pod := func(name string, phase v1.PodPhase) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", UID: types.UID("u-" + name)},
			Status: v1.PodStatus{Phase: phase}, Spec: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}},
				Containers:     []v1.Container{{Name: "main"}},
			}}
	}
	// What a daemon that was killed left is replaced.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if _, err := Listen(dir); err == nil || !strings.Contains(err.Error(), "another program serves") {
		t.Fatalf("the socket of another program is taken: %v", err)
	}
	_ = left.Close()
	listener, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, listener, Config{
			Pods: func() []*v1.Pod {
				return []*v1.Pod{pod("web", v1.PodRunning), pod("idle", ""), pod("done", v1.PodFailed)}
			},
			Devices: fakeDevices{}, CPUs: fakeCPUs{}, Memory: fakeMemory{}, Requested: requested,
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if _, err := os.Lstat(filepath.Join(dir, SocketName)); err == nil {
			t.Error("the socket is left")
		}
	})
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, SocketName),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestPodResources(t *testing.T) {
	client := api.NewPodResourcesListerClient(serve(t, nil))
	list, err := client.List(t.Context(), &api.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.PodResources) != 2 || list.PodResources[1].Name != "idle" || len(list.PodResources[1].Containers) != 2 {
		t.Fatalf("List: %v", list)
	}
	got, err := client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "web", PodNamespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	// The init container has ended, and is not in the response.
	containers := got.GetPodResources().GetContainers()
	if len(containers) != 2 || containers[0].Name != "sidecar" || len(containers[0].CpuIds) != 2 ||
		containers[0].CpuIds[1] != 3 || containers[1].Name != "main" {
		t.Fatalf("Get: %v", got)
	}
	if d := containers[1].Devices; len(d) != 2 || d[0].ResourceName != "example.com/serial" || d[0].DeviceIds[0] != "a" ||
		d[1].DeviceIds[0] != "b" || d[0].Topology != nil || len(d[1].GetTopology().GetNodes()) != 2 ||
		d[1].Topology.Nodes[1].ID != 1 {
		t.Errorf("devices: %v", d)
	}
	if m := containers[1].Memory; len(m) != 2 || m[0].MemoryType != "hugepages-2Mi" || m[1].MemoryType != "memory" ||
		m[1].Size != 64 || len(m[1].Topology.Nodes) != 2 || m[1].Topology.Nodes[1].ID != 1 || len(containers[0].Memory) != 0 {
		t.Errorf("memory: %v and %v", m, containers[0].Memory)
	}
	for _, name := range []string{"done", "gone"} {
		if _, err := client.Get(t.Context(),
			&api.GetPodResourcesRequest{PodName: name, PodNamespace: "shop"}); status.Code(err) != codes.NotFound ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("Get %s: %v", name, err)
		}
	}
	all, err := client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	if err != nil || len(all.Devices) != 3 || len(all.CpuIds) != 3 {
		t.Errorf("GetAllocatableResources: %v, %v", all, err)
	}
	if m := all.GetMemory(); len(m) != 2 || m[0].Size != 200 || m[0].Topology.Nodes[0].ID != 0 || m[1].Size != 100 ||
		m[1].Topology.Nodes[0].ID != 1 {
		t.Errorf("allocatable memory: %v", m)
	}
}

// The API v1alpha1 is served on the same socket, and the requests of both are counted.
func TestAlphaAndCounts(t *testing.T) {
	counts := make(chan string, 10)
	conn := serve(t, func(version, call string, err error) {
		counts <- fmt.Sprint(version, " ", call, " ", status.Code(err))
	})
	got, err := v1alpha1.NewPodResourcesListerClient(conn).List(t.Context(), &v1alpha1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.PodResources) != 2 || got.PodResources[0].Name != "web" || got.PodResources[0].Namespace != "shop" ||
		len(got.PodResources[0].Containers) != 2 {
		t.Fatalf("List: %v", got)
	}
	main := got.PodResources[0].Containers[1]
	if d := main.Devices; main.Name != "main" || len(d) != 2 || d[1].ResourceName != "example.com/serial" ||
		d[1].DeviceIds[0] != "b" {
		t.Errorf("container: %v", main)
	}
	client := api.NewPodResourcesListerClient(conn)
	_, _ = client.Get(t.Context(), &api.GetPodResourcesRequest{PodName: "gone"})
	_, _ = client.GetAllocatableResources(t.Context(), &api.AllocatableResourcesRequest{})
	for _, want := range []string{"v1alpha1 List OK", "v1 Get NotFound", "v1 GetAllocatableResources OK"} {
		if got := <-counts; got != want {
			t.Errorf("counted %q, want %q", got, want)
		}
	}
}
