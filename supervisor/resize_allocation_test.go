package supervisor

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// A daemon that is started while a resize of the pod as a whole fails shows the resources that
// the pod has, and leaves its cgroup room for containers that are not resized yet.
func TestPodCgroupAcrossRestart(t *testing.T) {
	whole := func(cpu string) *v1.Pod {
		pod := sized(cpu, "64Mi")
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Gi")}
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
		pod.Annotations[podinfo.AnnotationHash] = cpu
		return pod
	}
	for name, refuse := range map[string]func(b *supervisorHarness, cgroups *fakeCgroups) (allow func()){
		"the kernel refuses": func(_ *supervisorHarness, cgroups *fakeCgroups) func() {
			cgroups.set(errors.New("in use"), nil)
			return func() { cgroups.set(nil, nil) }
		},
		"the runtime refuses": func(b *supervisorHarness, _ *fakeCgroups) func() {
			return b.fake.Inject("UpdateContainerResources", critest.Fault{Before: errors.New("in use"), Times: -1}).Remove
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				cgroups := newFakeCgroups()
				b.cgroups = cgroups
				shows := func(cgroup, status, allocated int64) func() bool {
					return func() bool {
						cgroups.mu.Lock()
						has := cgroups.applied["u1"].CPULimit
						cgroups.mu.Unlock()
						st := b.daemon.status("u1")
						return has == cgroup && st.Resources != nil && st.Resources.Limits.Cpu().Value() == status &&
							st.AllocatedResources.Cpu().Value() == allocated
					}
				}
				b.start().config.deliver(file, whole("2"))
				b.runs("u1")
				allow := refuse(b, cgroups)
				b.daemon.config.deliver(file, whole("1"))
				b.until(time.Minute, "the resize fails", func() bool {
					c := condition(b.daemon.status("u1"), v1.PodResizeInProgress)
					return c != nil && c.Reason == v1.PodReasonError
				})
				b.sigkill()
				b.restart(whole("1"))
				b.until(time.Second, "the new daemon shows the pod", func() bool { return b.daemon.status("u1").Resources != nil })
				if !shows(2000, 2, 1)() {
					t.Errorf("at once: the cgroup has %+v, the status %+v", cgroups.applied, b.daemon.status("u1"))
				}
				b.after(5 * time.Minute)
				if !shows(2000, 2, 1)() {
					t.Errorf("later: the cgroup has %+v, the status %+v", cgroups.applied, b.daemon.status("u1"))
				}
				allow()
				b.until(5*time.Minute, "it is resized", shows(1000, 1, 1))
				b.restart(whole("1"))
				b.after(time.Minute)
				if !shows(1000, 1, 1)() {
					t.Errorf("in the end: the cgroup has %+v, the status %+v", cgroups.applied, b.daemon.status("u1"))
				}
			})
		})
	}
}

// Another run of a pod has a cgroup of its own.
func TestNextRunHasAnotherCgroup(t *testing.T) {
	has := cri.Resources{Limits: map[v1.ResourceName]int64{v1.ResourceCPU: 1000}}
	if r := (status.Record{CgroupResources: &has}).NewRun(); r.CgroupResources != nil {
		t.Errorf("%+v", r.CgroupResources)
	}
}
