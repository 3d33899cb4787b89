package pod

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func equalAmounts(a, b Amounts) bool {
	pages := maps.Equal(a.HugePages, b.HugePages)
	a.HugePages, b.HugePages = nil, nil
	return pages && a.CPURequest == b.CPURequest && a.CPULimit == b.CPULimit && a.MemoryRequest == b.MemoryRequest &&
		a.MemoryLimit == b.MemoryLimit && a.CPURequested == b.CPURequested
}

func requests(cpu, memory string) v1.ResourceRequirements { return resources(list(cpu, memory), nil) }

func hugePages(limits map[string]string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Limits: v1.ResourceList{}}
	for size, amount := range limits {
		r.Limits[v1.ResourceName(v1.ResourceHugePagesPrefix+size)] = resource.MustParse(amount)
	}
	return r
}

func TestAmountsOf(t *testing.T) {
	r := resources(list("1500m", "64Mi"), list("2", "1Gi"))
	r.Limits["hugepages-2Mi"] = resource.MustParse("4Mi")
	want := Amounts{CPURequest: 1500, CPULimit: 2000, MemoryRequest: 64 << 20, MemoryLimit: 1 << 30, CPURequested: true,
		HugePages: map[string]int64{"2Mi": 4 << 20}}
	if got := AmountsOf(&r); !equalAmounts(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	zero := requests("0", "")
	if got := AmountsOf(&zero); !got.CPURequested || got.CPURequest != 0 {
		t.Errorf("a request of 0: %+v", got)
	}
	if got := AmountsOf(&v1.ResourceRequirements{}); !equalAmounts(got, Amounts{}) {
		t.Errorf("none: %+v", got)
	}
}

func TestPodAmounts(t *testing.T) {
	init := func(cpu, memory string) v1.Container { return v1.Container{Resources: requests(cpu, memory)} }
	sidecar := func(cpu, memory string) v1.Container {
		return v1.Container{Resources: requests(cpu, memory), RestartPolicy: &always}
	}
	for name, tc := range map[string]struct {
		init, regular []v1.Container
		pod           *v1.ResourceRequirements
		want          Amounts
	}{
		"no containers": {want: Amounts{}},
		"regular ones add up": {regular: []v1.Container{init("1", "1Gi"), init("500m", "")},
			want: Amounts{CPURequest: 1500, MemoryRequest: 1 << 30, CPURequested: true}},
		"init containers run one after the other": {
			init: []v1.Container{init("2", "1Ki"), init("1", "2Gi")}, regular: []v1.Container{init("500m", "1Gi")},
			want: Amounts{CPURequest: 2000, MemoryRequest: 2 << 30, CPURequested: true},
		},
		"a sidecar runs in parallel with those after it": {
			init: []v1.Container{init("3", ""), sidecar("1", ""), init("2500m", "")}, regular: []v1.Container{init("1", "")},
			want: Amounts{CPURequest: 3500, CPURequested: true},
		},
		"sidecars add up": {
			init: []v1.Container{sidecar("1", ""), sidecar("1", ""), init("1", "")}, regular: []v1.Container{init("2", "")},
			want: Amounts{CPURequest: 4000, CPURequested: true},
		},
		"huge pages by size": {
			init: []v1.Container{{Resources: hugePages(map[string]string{"1Gi": "1Gi"})}},
			regular: []v1.Container{{Resources: hugePages(map[string]string{"2Mi": "4Mi"})},
				{Resources: hugePages(map[string]string{"2Mi": "2Mi"})}},
			want: Amounts{HugePages: map[string]int64{"1Gi": 1 << 30, "2Mi": 6 << 20}},
		},
		"pod-level resources replace the sums that they state": {
			regular: []v1.Container{{Resources: resources(list("1", "1Gi"), list("1", "1Gi"))}},
			pod:     &v1.ResourceRequirements{Requests: list("3", ""), Limits: list("", "4Gi")},
			want:    Amounts{CPURequest: 3000, CPULimit: 1000, MemoryRequest: 1 << 30, MemoryLimit: 4 << 30, CPURequested: true},
		},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: tc.init, Containers: tc.regular, Resources: tc.pod,
			Overhead: list("7", "7Gi")}}
		if got := PodAmounts(pod); !equalAmounts(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestOverheadAmounts(t *testing.T) {
	pod := &v1.Pod{}
	if got := OverheadAmounts(pod); !equalAmounts(got, Amounts{}) {
		t.Errorf("none: %+v", got)
	}
	pod.Spec.Overhead = list("250m", "64Mi")
	want := Amounts{CPURequest: 250, CPULimit: 250, MemoryRequest: 64 << 20, MemoryLimit: 64 << 20, CPURequested: true}
	if got := OverheadAmounts(pod); !equalAmounts(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
