package volume

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

func podOf(t *testing.T, spec string) *v1.Pod {
	t.Helper()
	p := pod("u1")
	p.Spec = v1.PodSpec{}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMemorySize(t *testing.T) {
	const node = 1 << 30
	for _, c := range []struct {
		spec, limit string
		want        int64
	}{
		{`containers: [{name: a}]`, "0", node},
		{`containers: [{name: a}]`, "1Mi", 1 << 20},
		{`containers: [{name: a}]`, "2Gi", node},
		{`containers: [{name: a, resources: {limits: {memory: 1Mi}}}, {name: b, resources: {limits: {memory: 2Mi}}}]`, "0",
			3 << 20},
		{`containers: [{name: a, resources: {limits: {memory: 1Mi}}}, {name: b}]`, "0", node},
		{`containers: [{name: a, resources: {limits: {memory: 1Mi}}}]`, "512Ki", 512 << 10},
		{`{initContainers: [{name: i, resources: {limits: {memory: 8Mi}}}], containers: [{name: a, resources: {limits: {memory: 1Mi}}}]}`, "0", 8 << 20},
		{`{initContainers: [{name: s, restartPolicy: Always, resources: {limits: {memory: 4Mi}}}], containers: [{name: a, resources: {limits: {memory: 1Mi}}}]}`, "0", 5 << 20},
		{`{resources: {limits: {memory: 2Mi}}, containers: [{name: a}]}`, "0", 2 << 20},
	} {
		limit := resource.MustParse(c.limit)
		if got := memorySize(podOf(t, c.spec), &limit, node); got != c.want {
			t.Errorf("%s with %s: %d, want %d", c.spec, c.limit, got, c.want)
		}
	}
}

func TestPageSize(t *testing.T) {
	for _, c := range []struct {
		spec   string
		medium v1.StorageMedium
		want   string
	}{
		{`containers: [{name: a}]`, "HugePages-1Gi", "1Gi"},
		{`containers: [{name: a, resources: {requests: {hugepages-2Mi: 4Mi}}}]`, "HugePages", "2Mi"},
		{`containers: [{name: a}]`, "HugePages", ""},
		{`containers: [{name: a, resources: {requests: {hugepages-2Mi: 4Mi, hugepages-1Gi: 1Gi}}}]`, "HugePages", ""},
	} {
		got, err := pageSize(podOf(t, c.spec), c.medium)
		if (err != nil) != (c.want == "") || err == nil && got.String() != c.want {
			t.Errorf("%s %s: %s, %v, want %s", c.medium, c.spec, got.String(), err, c.want)
		}
	}
}
