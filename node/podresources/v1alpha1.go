package podresources

import (
	"context"

	api "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// alphaServer implements the API v1alpha1, which older exporters of devices call: the devices of containers, without
// NUMA nodes.
type alphaServer struct {
	v1alpha1.UnimplementedPodResourcesListerServer
	server
}

// List returns the devices of all pods that have not ended.
func (s alphaServer) List(ctx context.Context,
	_ *v1alpha1.ListPodResourcesRequest) (*v1alpha1.ListPodResourcesResponse, error) {
	list, err := s.server.List(ctx, &api.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	answer := &v1alpha1.ListPodResourcesResponse{}
	for _, pod := range list.PodResources {
		resources := &v1alpha1.PodResources{Name: pod.Name, Namespace: pod.Namespace}
		for _, c := range pod.Containers {
			container := &v1alpha1.ContainerResources{Name: c.Name}
			for _, d := range c.Devices {
				container.Devices = append(container.Devices,
					&v1alpha1.ContainerDevices{ResourceName: d.ResourceName, DeviceIds: d.DeviceIds})
			}
			resources.Containers = append(resources.Containers, container)
		}
		answer.PodResources = append(answer.PodResources, resources)
	}
	return answer, nil
}
