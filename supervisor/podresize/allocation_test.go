package podresize

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/status"
)

// While containers change, the cgroup of the pod allows what they and the pod have and are to
// have: the kernel accepts no container with more CPU than its pod.
func TestWidestPod(t *testing.T) {
	cpu := func(millicores int64) cri.Resources {
		values := map[v1.ResourceName]int64{v1.ResourceCPU: millicores}
		return cri.Resources{Requests: values, Limits: values}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Resources: &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}},
		Containers: []v1.Container{{Name: "main",
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}}}},
	}}
	limits := func(p *v1.Pod) [2]int64 {
		return [2]int64{p.Spec.Resources.Limits.Cpu().MilliValue(), p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue()}
	}
	has := cpu(200)
	r := Run{Record: &status.Record{}, State: &State{}}
	r.Record.CgroupResources = &has
	if got := limits(r.Widest(pod)); got != [2]int64{100, 100} {
		t.Errorf("nothing changes: %d", got)
	}
	r.pending = []cri.Resize{{Name: "main", From: cpu(200), To: cpu(100)}}
	if got := limits(r.Widest(pod)); got != [2]int64{200, 200} {
		t.Errorf("less: %d", got)
	}
	has = cpu(50)
	r.pending[0].From = cpu(50)
	if got := limits(r.Widest(pod)); got != [2]int64{100, 100} {
		t.Errorf("more: %d", got)
	}
	r.Record.CgroupResources = nil
	r.pending[0].From = cpu(200)
	if got := limits(r.Widest(pod)); got != [2]int64{100, 200} {
		t.Errorf("not known what the pod has: %d", got)
	}
	if got := limits(pod); got != [2]int64{100, 100} {
		t.Errorf("the pod was changed: %d", got)
	}
}
