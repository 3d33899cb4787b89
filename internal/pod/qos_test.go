package pod

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// list returns amounts of CPU and memory; an empty text leaves one out.
func list(cpu, memory string) v1.ResourceList {
	all := v1.ResourceList{}
	for name, amount := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory} {
		if amount != "" {
			all[name] = resource.MustParse(amount)
		}
	}
	return all
}

func resources(requests, limits v1.ResourceList) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: requests, Limits: limits}
}

func TestQOSClass(t *testing.T) {
	full := resources(list("1", "1Gi"), list("1", "1Gi"))
	for name, tc := range map[string]struct {
		init, a, b v1.ResourceRequirements
		pod        *v1.ResourceRequirements
		want       v1.PodQOSClass
	}{
		"no resources":                 {want: v1.PodQOSBestEffort},
		"zero amounts count as absent": {a: resources(list("0", "0"), nil), want: v1.PodQOSBestEffort},
		"only ephemeral storage": {
			a:    v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")}},
			want: v1.PodQOSBestEffort},
		"all limits equal requests": {init: full, a: full, b: full, want: v1.PodQOSGuaranteed},
		"requests default to limits": {init: full, a: resources(nil, list("1", "1Gi")), b: full,
			want: v1.PodQOSGuaranteed},
		"equal amounts in other units": {init: full, a: resources(list("1000m", "1024Mi"), list("1", "1Gi")), b: full,
			want: v1.PodQOSGuaranteed},
		"an init container without any": {a: full, b: full, want: v1.PodQOSBurstable},
		"a limit above the request": {init: full, a: resources(list("1", "1Gi"), list("2", "1Gi")), b: full,
			want: v1.PodQOSBurstable},
		"a container without memory limit": {init: full, a: resources(list("1", "1Gi"), list("1", "")), b: full,
			want: v1.PodQOSBurstable},
		"one request":                       {b: resources(list("1m", ""), nil), want: v1.PodQOSBurstable},
		"pod-level resources stand for all": {a: resources(list("1m", ""), nil), pod: &full, want: v1.PodQOSGuaranteed},
		"empty pod-level resources": {init: full, a: full, b: full, pod: &v1.ResourceRequirements{},
			want: v1.PodQOSBestEffort},
		"pod-level request": {init: full, a: full, b: full, pod: &v1.ResourceRequirements{Requests: list("1", "")},
			want: v1.PodQOSBurstable},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Resources: tc.init}},
			Containers:     []v1.Container{{Resources: tc.a}, {Resources: tc.b}},
			Resources:      tc.pod,
		}}
		if got := QOSClass(pod); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
