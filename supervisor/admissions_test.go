package supervisor

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// BenchmarkAdmitAll is the start of a node with a thousand pods, with room for
// all of them and for half.
func BenchmarkAdmitAll(b *testing.B) {
	b.Run("all", func(b *testing.B) { admitAll(b, "20", 1000) })
	b.Run("half", func(b *testing.B) { admitAll(b, "5", 500) })
}

func admitAll(b *testing.B, cpu string, fit int) {
	var pods []*v1.Pod
	for i := range 1000 {
		pod := asking(fmt.Sprintf("p%03d", i), "10m")
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: int32(1000 + i)}}
		pods = append(pods, pod)
	}
	none := func() *cri.Observed { return &cri.Observed{} }
	for b.Loop() {
		a := newAdmissions(v1.ResourceList{v1.ResourceCPU: cpus(cpu)[v1.ResourceCPU]}, none, func(types.UID) {})
		for _, pod := range pods {
			a.announce(pod)
		}
		for i := range pods {
			a.take(pods[len(pods)-1-i], time.Time{})
		}
		// Who was refused while not all had spoken asks again.
		admitted := 0
		for _, pod := range pods {
			if a.take(pod, time.Time{}).Refusal == nil {
				admitted++
			}
		}
		if admitted != fit {
			b.Fatalf("%d were admitted, want %d", admitted, fit)
		}
	}
}
