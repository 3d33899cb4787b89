package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// sized returns a pod with a limit of CPU and memory; revisions differ in
// nothing else.
func sized(cpu, memory string, policies ...v1.ContainerResizePolicy) *v1.Pod {
	pod := testPod("web", "u1", "template")
	pod.Annotations[podinfo.AnnotationHash] = cpu + memory
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: list, Requests: list}
	pod.Spec.Containers[0].ResizePolicy = policies
	return pod
}

func (b *supervisorHarness) linux() *runtimeapi.LinuxContainerResources {
	c, _ := b.fake.Newest("app")
	return c.Config.GetLinux().GetResources()
}

func condition(st v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	if i := slices.IndexFunc(st.Conditions, func(c v1.PodCondition) bool { return c.Type == kind }); i >= 0 {
		return &st.Conditions[i]
	}
	return nil
}

// A running container is resized once, even if the daemon restarts.
func TestResizeInPlace(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.cgroups = newFakeCgroups()
		d := b.start()
		d.config.deliver(file, sized("1", "64Mi"))
		b.runs("u1")
		first, _ := b.fake.Newest("app")
		d.config.deliver(file, sized("2", "128Mi"))
		b.until(time.Minute, "the limits are the new ones", func() bool {
			return b.linux().CpuQuota == 200_000 && b.linux().MemoryLimitInBytes == 128<<20
		})
		b.until(time.Minute, "the status has them", func() bool {
			st := d.status("u1")
			return len(st.ContainerStatuses) == 1 && st.ContainerStatuses[0].Resources.Limits.Memory().Value() == 128<<20
		})
		d = b.restart(sized("2", "128Mi"))
		b.after(5 * time.Minute)
		if n := b.fake.Calls("UpdateContainerResources"); n != 1 {
			t.Errorf("%d updates, want one", n)
		}
		if st := d.status("u1"); st.ContainerStatuses[0].Resources.Limits.Memory().Value() != 128<<20 {
			t.Errorf("after a restart the status shows %v", st.ContainerStatuses[0].Resources)
		}
		// Back to the resources of its creation: only the record shows
		// that this is a change.
		d = b.restart(sized("1", "64Mi"))
		b.until(time.Minute, "the limits are those of the creation", func() bool { return b.linux().CpuQuota == 100_000 })
		if now, _ := b.fake.Newest("app"); now.ID != first.ID {
			t.Error("the container was restarted")
		}
	})
}

// A lost response causes no ambiguity: the same resize is requested again.
func TestResizeWhoseAnswerIsLost(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, sized("1", "64Mi"))
		b.runs("u1")
		b.fake.Inject("UpdateContainerResources", critest.Fault{After: status.Error(codes.Unavailable, "gone")})
		d.config.deliver(file, sized("2", "64Mi"))
		b.until(time.Minute, "it was tried", func() bool { return b.fake.Calls("UpdateContainerResources") > 0 })
		d.config.deliver(file, sized("1", "64Mi"))
		b.until(5*time.Minute, "the limit is the wanted one", func() bool { return b.linux().CpuQuota == 100_000 })
		b.after(10 * time.Minute)
		if got := b.linux().CpuQuota; got != 100_000 {
			t.Errorf("quota %d", got)
		}
		if c := condition(d.status("u1"), v1.PodResizeInProgress); c != nil {
			t.Errorf("the status is still %+v", c)
		}
	})
}

// A limit below the current usage is rejected, reported, and set once it is
// possible.
func TestResizeBelowUsage(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := b.start()
		d.config.deliver(file, sized("1", "64Mi"))
		b.runs("u1")
		b.fake.SetMemory("app", 50<<20)
		d.config.deliver(file, sized("1", "32Mi"))
		b.until(time.Minute, "the status shows the reason", func() bool {
			c := condition(d.status("u1"), v1.PodResizeInProgress)
			return c != nil && c.Reason == v1.PodReasonError &&
				strings.Contains(c.Message, "memory limit (33554432) below current usage (52428800")
		})
		if got := b.linux().MemoryLimitInBytes; got != 64<<20 {
			t.Errorf("limit %d", got)
		}
		b.after(2 * time.Minute)
		b.fake.SetMemory("app", 20<<20)
		b.until(time.Minute, "the limit is the new one", func() bool { return b.linux().MemoryLimitInBytes == 32<<20 })
		b.until(time.Minute, "the condition is removed",
			func() bool { return condition(d.status("u1"), v1.PodResizeInProgress) == nil })
		if n := strings.Count(d.log.String(), "reason=ResizeError"); n != 1 {
			t.Errorf("%d events ResizeError, want one", n)
		}
	})
}

// A resize that the node can never satisfy does not affect running containers.
func TestResizeThatCannotBe(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.cgroups = newFakeCgroups()
		d := b.start()
		d.config.deliver(file, sized("1", "64Mi"))
		b.runs("u1")
		d.config.deliver(file, sized("1000", "64Mi"))
		b.until(time.Minute, "the status shows the reason", func() bool {
			c := condition(d.status("u1"), v1.PodResizePending)
			return c != nil && c.Reason == v1.PodReasonInfeasible
		})
		b.after(5 * time.Minute)
		if got := b.linux().CpuQuota; got != 100_000 {
			t.Errorf("quota %d", got)
		}
		d.config.deliver(file, sized("1", "64Mi"))
		b.until(time.Minute, "the condition is removed",
			func() bool { return condition(d.status("u1"), v1.PodResizePending) == nil })
	})
}

// A container whose resizePolicy is RestartContainer restarts for its new
// resources.
func TestResizeThatRestarts(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		policy := v1.ContainerResizePolicy{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}
		d := b.start()
		d.config.deliver(file, sized("1", "64Mi", policy))
		b.runs("u1")
		first, _ := b.fake.Newest("app")
		d.config.deliver(file, sized("2", "64Mi", policy))
		b.until(time.Minute, "cpu changes in place", func() bool { return b.linux().CpuQuota == 200_000 })
		if now, _ := b.fake.Newest("app"); now.ID != first.ID {
			t.Error("a change of cpu restarted it")
		}
		d.config.deliver(file, sized("2", "32Mi", policy))
		b.until(time.Minute, "memory restarts", func() bool {
			now, _ := b.fake.Newest("app")
			return now.ID != first.ID && now.Running() && b.linux().MemoryLimitInBytes == 32<<20 && b.linux().CpuQuota == 200_000
		})
		b.after(5 * time.Minute)
		if n := b.fake.Starts("u1", "app"); n != 2 {
			t.Errorf("%d starts, want 2", n)
		}
	})
}
