package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Init containers run one after the other, with the sidecars before them.
func TestEphemeralStorage(t *testing.T) {
	container := func(request, limit string, sidecar bool) (c v1.Container) {
		always := v1.ContainerRestartPolicyAlways
		if sidecar {
			c.RestartPolicy = &always
		}
		list := func(amount string) v1.ResourceList {
			return v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(amount)}
		}
		c.Resources = v1.ResourceRequirements{Requests: list(request), Limits: list(limit)}
		return c
	}
	p := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{container("30", "31", false), container("5", "6", true), container("20", "20", false)},
		Containers:     []v1.Container{container("10", "11", false)},
	}}
	requests := func(r *v1.ResourceRequirements) v1.ResourceList { return r.Requests }
	if got, limit := EphemeralStorage(p, requests), EphemeralStorageLimit(p); got != 30 || limit != 31 {
		t.Errorf("%d and %d, want that of the first init container", got, limit)
	}
	p.Spec.InitContainers = p.Spec.InitContainers[1:]
	if got, limit := EphemeralStorage(p, requests), EphemeralStorageLimit(p); got != 25 || limit != 26 {
		t.Errorf("%d and %d, want the sidecar with the second init container", got, limit)
	}
	if got := EphemeralStorageLimit(&v1.Pod{}); got != 0 {
		t.Errorf("%d without limits", got)
	}
}
