package cri_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri"
)

// A pod that needs more than the runtime supports waits, and starts after the
// runtime was upgraded. A downgrade does not affect running containers.
func TestSyncWaitsForASupportingRuntime(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a"})
	signal := v1.SIGRTMINPLUS3
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{StopSignal: &signal}
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		b.fake.SetVersion("containerd", "1.6.20~ds1", nil)
		r := b.sync()
		why := r.Waiting[""]
		if r.Err == nil || r.Acted || why.Reason != cri.ReasonUnsupported ||
			!strings.Contains(why.Message, "containerd 2.3 or later") || r.RetryAfter == 0 {
			t.Errorf("got %+v", r)
		}
		if !b.events.has("NotSupportedByRuntime: spec.containers[0].lifecycle.stopSignal is not") {
			t.Errorf("events %q", b.events.list)
		}
		b.fake.SetVersion("containerd", "v2.4.2", nil)
		b.settle()
		b.runs("a")
		if a, _ := b.fake.Newest("a"); a.Config.StopSignal != runtimeapi.Signal_SIGRTMINPLUS3 {
			t.Errorf("the runtime got stop signal %s", a.Config.StopSignal)
		}
		b.fake.SetVersion("containerd", "v1.7.1", nil)
		if r := b.sync(); r.Err != nil || r.Acted {
			t.Errorf("after a downgrade: %+v", r)
		}
		b.fresh("a")
	})
}

// A pod keeps the handler that its sandbox was created with, even when its
// class is gone and a new sandbox would get another one.
func TestSyncKeepsTheHandlerOfASandbox(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a"})
	mode := v1.RecursiveReadOnlyEnabled
	p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{
		{Name: "v", MountPath: "/v", ReadOnly: true, RecursiveReadOnly: &mode}}
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		b.fake.SetHandlers(&runtimeapi.RuntimeHandler{Name: ""}, &runtimeapi.RuntimeHandler{
			Name: "kata", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true},
		})
		b.handler = "kata"
		b.settle()
		b.runs("a")
		b.handler = ""
		b.fake.Kill("a")
		b.settle()
		b.runs("a")
		if n := b.fake.Starts(string(p.UID), "a"); n != 2 {
			t.Errorf("it was started %d times", n)
		}
	})
}
