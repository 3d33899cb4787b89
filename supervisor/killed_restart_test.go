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
		"the daemon is stopped": func(b *supervisorHarness, now *v1.Pod) {
			b.kill()
			b.after(20 * time.Second)
			b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, now)
		},
		"the daemon is killed": func(b *supervisorHarness, now *v1.Pod) {
			b.sigkill()
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
					b.fake.OnExec(func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
						error) {
						if failing.Load() {
							return &runtimeapi.ExecSyncResponse{ExitCode: 1}, nil
						}
						return &runtimeapi.ExecSyncResponse{}, nil
					})
					b.fake.Behave("app", critest.Behaviour{StopAfter: 10 * time.Second})
					if reason == "liveness" {
						pod.Spec.Containers[0].LivenessProbe = &v1.Probe{
							ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}, PeriodSeconds: 1,
							TimeoutSeconds: 1, FailureThreshold: 1, SuccessThreshold: 1,
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
					b.until(time.Minute, "the pod has succeeded when it exits by itself",
						func() bool { return b.daemon.status("u1").Phase == v1.PodSucceeded })
					b.after(10 * time.Minute)
					if n := b.fake.Starts("u1", "app"); n != 2 {
						t.Errorf("%d starts", n)
					}
				})
			})
		}
	}
}

// A container in unknown state starts again whatever its policy, as long as another one keeps its
// pod from ending and it is not known how it ended. Its kill reports how: with Never it has failed if
// the daemon or the runtime fails between that and its next start, and no record brings it back.
func TestUnknownStateWithPolicyNever(t *testing.T) {
	lost := critest.Fault{After: errors.New("connection lost")}
	for name, c := range map[string]struct {
		alone  bool
		fault  *critest.Fault
		killed bool
		starts int
		phase  v1.PodPhase
	}{
		"the pod has no other container": {true, nil, false, 1, v1.PodFailed},
		"nothing fails":                  {false, nil, false, 2, v1.PodSucceeded},
		"the reply to its stop is lost":  {false, &lost, false, 1, v1.PodFailed},
		"the daemon is killed before it": {false, &critest.Fault{Hang: true}, true, 2, v1.PodSucceeded},
		"the daemon is killed after it":  {false, &critest.Fault{HangAfter: true}, true, 1, v1.PodFailed},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				pod := boundPod("p", "u1")
				pod.Spec.RestartPolicy = v1.RestartPolicyNever
				if !c.alone {
					other := *pod.Spec.Containers[0].DeepCopy()
					other.Name = "other"
					pod.Spec.Containers = append(pod.Spec.Containers, other)
				}
				b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
				b.until(time.Minute, "it runs",
					func() bool { return b.running("u1") == len(pod.Spec.Containers) && b.daemon.isReady("u1") })
				if c.fault != nil {
					b.fake.Inject("StopContainer", *c.fault)
				}
				b.fake.Lose("app")
				b.until(time.Minute, "it is stopped", func() bool { return b.fake.Calls("StopContainer") > 0 })
				if c.killed {
					b.after(40 * time.Second)
					b.sigkill()
					b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
				}
				b.after(10 * time.Minute)
				if n, phase := b.fake.Starts("u1", "app"), b.daemon.status("u1").Phase; n != c.starts || !c.alone &&
					phase != v1.PodRunning {
					t.Errorf("%d starts, want %d; phase %s", n, c.starts, phase)
				}
				b.fake.Exit("app", 0)
				b.fake.Exit("other", 0)
				b.until(time.Minute, "the pod has ended", func() bool { return b.daemon.status("u1").Phase == c.phase })
				b.after(10 * time.Minute)
				if n := b.fake.Starts("u1", "app"); n != c.starts {
					t.Errorf("%d starts in the end, want %d", n, c.starts)
				}
			})
		})
	}
}
