package supervisor

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// deferred returns a supervisorHarness with three CPUs in which u1 has one and
// requests three, and another pod has one.
func deferred(b *supervisorHarness) (d *daemon, other *v1.Pod) {
	b.t.Helper()
	b.allocatable = cpus("3")
	other = requestingPod("other", "1")
	d = b.start()
	d.config.deliver(file, sized("1", "64Mi"), other)
	b.runs("u1")
	b.runs(other.UID)
	d.config.deliver(file, sized("3", "64Mi"), other)
	b.isDeferred()
	return d, other
}

func (b *supervisorHarness) isDeferred() {
	b.t.Helper()
	b.until(time.Minute, "the resize is deferred", func() bool {
		c := condition(b.daemon.status("u1"), v1.PodResizePending)
		return c != nil && c.Reason == v1.PodReasonDeferred
	})
}

// A container that starts while a resize waits for room starts with its
// previous resources, however it ended, and uses no more of the node.
func TestStartsWhileResizeIsDeferred(t *testing.T) {
	ends := map[string]func(b *supervisorHarness, other *v1.Pod){
		"the container crashes": func(b *supervisorHarness, _ *v1.Pod) { b.fake.Exit("app", 1) },
		"the sandbox dies":      func(b *supervisorHarness, _ *v1.Pod) { b.fake.KillSandboxes("web") },
		"the container is lost": func(b *supervisorHarness, _ *v1.Pod) { b.fake.Lose("app") },
		"the machine is rebooted": func(b *supervisorHarness, other *v1.Pod) {
			b.kill()
			b.fake.Reboot()
			b.restart(sized("3", "64Mi"), other)
		},
		"it exits between daemons": func(b *supervisorHarness, other *v1.Pod) {
			b.kill()
			b.fake.Exit("app", 1)
			b.restart(sized("3", "64Mi"), other)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				_, other := deferred(b)
				first, _ := b.fake.Newest("app")
				end(b, other)
				b.until(5*time.Minute, "it restarts", func() bool {
					now, _ := b.fake.Newest("app")
					return now.ID != first.ID && now.Running()
				})
				b.runs(other.UID)
				b.isDeferred()
				if got := b.linux().CpuQuota; got != 100_000 {
					t.Errorf("quota %d, want that of one cpu", got)
				}
				late := requestingPod("late", "1")
				b.daemon.config.deliver(file, sized("3", "64Mi"), other, late)
				b.runs(late.UID)
				if got := b.daemon.status("u1").ContainerStatuses[0].AllocatedResources; got.Cpu().Value() != 1 {
					t.Errorf("the status shows %v as allocated", got)
				}
				b.daemon.config.deliver(file, sized("3", "64Mi"))
				b.until(time.Minute, "it is resized", func() bool { return b.linux().CpuQuota == 300_000 })
			})
		})
	}
}

// A container that waits to be restarted when there is room for the resize
// starts with the new resources.
func TestResizeIsGrantedBetweenStarts(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d, _ := deferred(b)
		b.fake.Behave("app", critest.Behaviour{RunFor: time.Second, ExitCode: 1})
		b.fake.Exit("app", 1)
		b.after(3 * time.Minute)
		if got := b.linux().CpuQuota; b.running("u1") != 0 || got != 100_000 {
			t.Fatalf("%d run, quota %d: the test has not reached a back-off", b.running("u1"), got)
		}
		d.config.deliver(file, sized("3", "64Mi"))
		b.until(10*time.Minute, "it is started with its new limit", func() bool { return b.linux().CpuQuota == 300_000 })
		if c := condition(d.status("u1"), v1.PodResizePending); c != nil {
			t.Errorf("the status is still %+v", c)
		}
		if n := b.fake.Calls("UpdateContainerResources"); n != 0 {
			t.Errorf("%d updates", n)
		}
	})
}

// A container that has never run has the resources that its pod was admitted
// with.
func TestResizeIsDeferredBeforeTheStart(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("3")
		other := requestingPod("other", "1")
		web := func(cpu string) *v1.Pod {
			pod := sized(cpu, "64Mi")
			pod.Spec.InitContainers = []v1.Container{{Name: "setup", Image: "img:1", ImagePullPolicy: v1.PullIfNotPresent}}
			return pod
		}
		d := b.start()
		d.config.deliver(file, web("1"), other)
		b.runs(other.UID)
		b.until(time.Minute, "the init container runs", func() bool { return b.running("u1") == 1 })
		d.config.deliver(file, web("3"), other)
		b.isDeferred()
		b.restart(web("3"), other)
		b.isDeferred()
		b.fake.Exit("setup", 0)
		b.until(time.Minute, "it has started", func() bool {
			c, ok := b.fake.Newest("app")
			return ok && c.Running()
		})
		if got := b.linux().CpuQuota; got != 100_000 {
			t.Errorf("quota %d, want that of one cpu", got)
		}
	})
}

// A pod that lacks room after a reboot and requests less starts with the lower
// request.
func TestLowerRequestAfterReboot(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		deferred(b)
		b.kill()
		b.fake.Reboot()
		b.allocatable = cpus("1")
		other := requestingPod("other", "500m")
		priority := int32(7)
		other.Spec.Priority = &priority
		d := b.restart(sized("3", "64Mi"), other)
		b.runs(other.UID)
		b.until(time.Minute, "the other waits", func() bool { return d.status("u1").Reason == outOfCPU })
		b.after(time.Minute)
		if n := b.running("u1"); n != 0 {
			t.Errorf("%d run", n)
		}
		d.config.deliver(file, sized("500m", "64Mi"), other)
		b.runs("u1")
		if got := b.linux().CpuQuota; got != 50_000 {
			t.Errorf("quota %d, want that of half a cpu", got)
		}
	})
}

// A deferred resize is made as soon as another pod has been resized to less, not with the next periodic sync of that
// pod.
func TestDeferredResizeFollowsAnotherResize(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.allocatable = cpus("3")
		other := requestingPod("other", "2")
		d := b.start()
		d.config.deliver(file, sized("1", "64Mi"), other)
		b.runs("u1")
		b.runs(other.UID)
		d.config.deliver(file, sized("2", "64Mi"), other)
		b.isDeferred()
		less := requestingPod("other", "1")
		less.Annotations[podinfo.AnnotationHash] = "less"
		d.config.deliver(file, sized("2", "64Mi"), less)
		b.until(5*time.Second, "it is resized", func() bool { return b.linux().CpuQuota == 200_000 })
	})
}
