package podresources

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	api "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
)

// Devices are the allocations of devices. Implemented by devices.Manager.
type Devices interface {
	// Allocated returns the IDs of the devices of a pod, by container and resource.
	Allocated(uid types.UID) map[string]map[v1.ResourceName][]string
	// Allocatable returns the IDs of all healthy devices, by resource.
	Allocatable() map[v1.ResourceName][]string
	// NUMANodes returns those of a device, nil if they are not known.
	NUMANodes(name v1.ResourceName, id string) []int
}

// CPUs are the allocations of exclusive CPUs. Implemented by cpus.Manager.
type CPUs interface {
	// Assigned returns the exclusive CPUs of a container, Assignable those that can be exclusive.
	Assigned(uid types.UID, container string) cpus.Set
	Assignable() cpus.Set
}

// Memory are the allocations of memory of NUMA nodes. Implemented by memory.Manager.
type Memory interface {
	// Assigned returns the NUMA nodes of a container and what it has of them together, in bytes by
	// type; nothing for a container without memory of its own.
	Assigned(uid types.UID, container string) (nodes []int, has memory.Amounts)
	// Assignable returns what containers can have of each NUMA node.
	Assignable() memory.Nodes
}

// Claims are the devices of resource claims. Implemented by dra.Manager.
type Claims interface {
	// Devices returns those that a container has from claims; an error reports that they are not prepared.
	Devices(pod *v1.Pod, c *v1.Container) ([]device.Prepared, error)
}

// Config are the sources of a Server.
type Config struct {
	// Pods returns the pods of the node.
	Pods    func() []*v1.Pod
	Devices Devices
	// CPUs is nil without a CPU manager.
	CPUs CPUs
	// Memory is nil without a memory manager.
	Memory Memory
	// Claims is nil on a node that is not in a cluster.
	Claims Claims
	// Requested counts a request by the version of the API, v1 or v1alpha1, and the name of the call, such as List.
	// It may be nil.
	Requested func(version, call string, err error)
}

// server implements the API.
type server struct {
	api.UnimplementedPodResourcesListerServer
	cfg Config
}

// List returns the resources of all pods that have not ended.
func (s server) List(context.Context, *api.ListPodResourcesRequest) (*api.ListPodResourcesResponse, error) {
	response := &api.ListPodResourcesResponse{}
	for _, pod := range s.cfg.Pods() {
		if isActive(pod) {
			response.PodResources = append(response.PodResources, s.resources(pod))
		}
	}
	return response, nil
}

// Get returns the resources of one pod.
func (s server) Get(_ context.Context, req *api.GetPodResourcesRequest) (*api.GetPodResourcesResponse, error) {
	for _, pod := range s.cfg.Pods() {
		if pod.Name == req.GetPodName() && pod.Namespace == req.GetPodNamespace() && isActive(pod) {
			return &api.GetPodResourcesResponse{PodResources: s.resources(pod)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", req.GetPodName(), req.GetPodNamespace())
}

// GetAllocatableResources returns what the node has for containers.
func (s server) GetAllocatableResources(context.Context,
	*api.AllocatableResourcesRequest) (*api.AllocatableResourcesResponse, error) {
	response := &api.AllocatableResourcesResponse{Devices: s.devices(s.cfg.Devices.Allocatable())}
	if s.cfg.CPUs != nil {
		response.CpuIds = cpuIDs(s.cfg.CPUs.Assignable())
	}
	if s.cfg.Memory != nil {
		all := s.cfg.Memory.Assignable()
		for _, id := range slices.Sorted(maps.Keys(all)) {
			response.Memory = append(response.Memory, containerMemory([]int{id}, all[id])...)
		}
	}
	return response, nil
}

func isActive(pod *v1.Pod) bool {
	return pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
}

// resources returns those of the containers that run as long as the pod: sidecars and containers,
// as at the kubelet.
func (s server) resources(pod *v1.Pod) *api.PodResources {
	response := &api.PodResources{Name: pod.Name, Namespace: pod.Namespace}
	devices := s.cfg.Devices.Allocated(pod.UID)
	add := func(c *v1.Container) {
		container := &api.ContainerResources{Name: c.Name, Devices: s.devices(devices[c.Name])}
		if s.cfg.CPUs != nil {
			container.CpuIds = cpuIDs(s.cfg.CPUs.Assigned(pod.UID, c.Name))
		}
		if s.cfg.Memory != nil {
			container.Memory = containerMemory(s.cfg.Memory.Assigned(pod.UID, c.Name))
		}
		if s.cfg.Claims != nil {
			prepared, _ := s.cfg.Claims.Devices(pod, c) // what is not prepared is not in use
			container.DynamicResources = dynamicResources(prepared)
		}
		response.Containers = append(response.Containers, container)
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podinfo.IsSidecar(c) {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return response
}

func cpuIDs(set cpus.Set) (ids []int64) {
	for _, cpu := range set {
		ids = append(ids, int64(cpu))
	}
	return ids
}

// containerMemory returns memory in the form of the API, one entry for each type that is not 0.
func containerMemory(nodes []int, has memory.Amounts) (list []*api.ContainerMemory) {
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if has[name] > 0 {
			list = append(list, &api.ContainerMemory{MemoryType: string(name), Size: uint64(has[name]),
				Topology: topologyOf(nodes)})
		}
	}
	return list
}

// topologyOf returns NUMA nodes in the form of the API, nil for none.
func topologyOf(nodes []int) *api.TopologyInfo {
	if len(nodes) == 0 {
		return nil
	}
	info := &api.TopologyInfo{}
	for _, id := range nodes {
		info.Nodes = append(info.Nodes, &api.NUMANode{ID: int64(id)})
	}
	return info
}

// dynamicResources returns the devices of claims in the form of the API: one entry for each claim.
func dynamicResources(prepared []device.Prepared) (list []*api.DynamicResource) {
	for _, d := range prepared {
		i := slices.IndexFunc(list, func(r *api.DynamicResource) bool {
			return r.ClaimNamespace == d.Namespace &&
				r.ClaimName == d.Claim
		})
		if i < 0 {
			i = len(list)
			list = append(list, &api.DynamicResource{ClaimNamespace: d.Namespace, ClaimName: d.Claim})
		}
		resource := &api.ClaimResource{DriverName: d.Driver, PoolName: d.Pool, DeviceName: d.Device}
		if d.Share != "" {
			resource.ShareId = &d.Share
		}
		for _, name := range d.CDI {
			resource.CdiDevices = append(resource.CdiDevices, &api.CDIDevice{Name: name})
		}
		list[i].ClaimResources = append(list[i].ClaimResources, resource)
	}
	return list
}
