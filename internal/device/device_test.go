package device

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A device that the scheduler has taken from a resource claim is not requested from a device plugin
// as well, also if one has registered the name of the resource.
func TestRequestsLeaveOutClaims(t *testing.T) {
	one := resource.MustParse("1")
	c := v1.Container{Name: "main",
		Resources: v1.ResourceRequirements{
			Limits: v1.ResourceList{"example.com/gpu": one, "example.com/nic": one, v1.ResourceCPU: one}}}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{c}}}
	if got := Requests(pod, &c); !reflect.DeepEqual(got,
		map[v1.ResourceName]int64{"example.com/gpu": 1, "example.com/nic": 1}) {
		t.Errorf("requests %v", got)
	}
	pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "x",
		RequestMappings: []v1.ContainerExtendedResourceRequest{
			{ContainerName: "main", ResourceName: "example.com/gpu", RequestName: "r"},
			{ContainerName: "other", ResourceName: "example.com/nic", RequestName: "r"},
		}}
	if got := Requests(pod, &c); !reflect.DeepEqual(got, map[v1.ResourceName]int64{"example.com/nic": 1}) {
		t.Errorf("requests %v with a claim", got)
	}
}
