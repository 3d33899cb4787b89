package supervisor

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// A container that is killed to be restarted is, although it exits with 0 and its restartPolicy
// would leave it down: also if the daemon or the runtime fails between its end and its next start.
// (The kubelet loses it, and the pod is Succeeded.)
func TestKilledContainerRestartsAfterACleanExit(t *testing.T) {
	for name, disturb := range map[string]func(b *supervisorHarness, now *v1.Pod){
		"nothing fails": func(*supervisorHarness, *v1.Pod) {},
		"the daemon is killed": func(b *supervisorHarness, now *v1.Pod) {
			b.kill()
			b.after(20 * time.Second)
			b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, now)
		},
		"the runtime fails to create it": func(b *supervisorHarness, _ *v1.Pod) {
			b.fake.Inject("CreateContainer", critest.Fault{Before: errors.New("no space left"), Times: 3})
		},
		"the reply to its stop is lost": func(b *supervisorHarness, _ *v1.Pod) {
			b.fake.Disconnect()
		},
	} {
		for _, reason := range []string{"liveness", "definition"} {
			t.Run(name+", "+reason, func(t *testing.T) {
				withTestbed(t, func(t *testing.T, b *supervisorHarness) {
					pod := boundPod("p", "u1")
					pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
					var failing atomic.Bool
					b.fake.OnExec(func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
						if failing.Load() {
							return &runtimeapi.ExecSyncResponse{ExitCode: 1}, nil
						}
						return &runtimeapi.ExecSyncResponse{}, nil
					})
					b.fake.Behave("app", critest.Behaviour{StopAfter: 10 * time.Second})
					if reason == "liveness" {
						pod.Spec.Containers[0].LivenessProbe = &v1.Probe{
							ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}, PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
						}
					}
					d := b.start(manifest.SourceAPI)
					d.config.deliver(manifest.SourceAPI, pod)
					b.runs("u1")
					b.after(5 * time.Second)
					if reason == "liveness" {
						failing.Store(true)
					} else {
						pod = pod.DeepCopy()
						pod.Generation, pod.Spec.Containers[0].Image = 2, "img:2"
						b.fake.SetImages("img:1", "img:2")
						d.config.update(manifest.Update, pod)
					}
					b.until(10*time.Second, "it is stopped", func() bool { return b.fake.Calls("StopContainer") > 0 })
					failing.Store(false)
					b.after(5 * time.Second)
					disturb(b, pod)
					b.until(5*time.Minute, "it runs again", func() bool {
						return b.fake.Starts("u1", "app") == 2 && b.running("u1") == 1 && b.daemon.status("u1").Phase == v1.PodRunning
					})
					b.fake.Exit("app", 0)
					b.until(time.Minute, "the pod has succeeded when it exits by itself", func() bool { return b.daemon.status("u1").Phase == v1.PodSucceeded })
					b.after(10 * time.Minute)
					if n := b.fake.Starts("u1", "app"); n != 2 {
						t.Errorf("%d starts", n)
					}
				})
			})
		}
	}
}
