package supervisor

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
)

// startProbedJob runs a job whose liveness probe fails as long as the returned value is set.
func (b *supervisorHarness) startProbedJob() (*v1.Pod, *atomic.Bool) {
	b.t.Helper()
	failing := &atomic.Bool{}
	b.fake.OnExec(func(context.Context, critest.Container, *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse,
		error) {
		if failing.Load() {
			return &runtimeapi.ExecSyncResponse{ExitCode: 1}, nil
		}
		return &runtimeapi.ExecSyncResponse{}, nil
	})
	pod := boundPod("p", "u1")
	pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
	pod.Spec.Containers[0].LivenessProbe = &v1.Probe{
		ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"check"}}}, PeriodSeconds: 1, TimeoutSeconds: 1,
		FailureThreshold: 1, SuccessThreshold: 1,
	}
	b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
	b.runs("u1")
	b.after(5 * time.Second)
	return pod, failing
}

// succeedsOnce waits until the pod has succeeded with the only start that its container had.
func (b *supervisorHarness) succeedsOnce() {
	b.t.Helper()
	b.after(time.Minute)
	if n, phase := b.fake.Starts("u1", "app"), b.daemon.status("u1").Phase; n != 1 || phase != v1.PodSucceeded {
		b.t.Errorf("%d starts, phase %s", n, phase)
	}
}

// The record of a kill is on the disk before the runtime is asked for it.
func TestKillIsRecordedBeforeIt(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		_, failing := b.startProbedJob()
		app, _ := b.fake.Newest("app")
		stop := b.fake.Inject("StopContainer", critest.Fault{Hang: true})
		failing.Store(true)
		<-stop.Reached()
		data, err := os.ReadFile(b.path("records/u1.json"))
		if _, killed, _ := strings.Cut(string(data), "killedToRestart"); err != nil || !strings.Contains(killed, app.ID) {
			t.Errorf("the record does not have the kill: %v\n%s", err, data)
		}
		failing.Store(false)
		stop.Release()
		b.until(time.Minute, "it runs again", func() bool { return b.fake.Starts("u1", "app") == 2 })
	})
}

// A container that was not killed after all and exits by itself is not restarted.
func TestFailedKillRestartsNothing(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		_, failing := b.startProbedJob()
		stop := b.fake.Inject("StopContainer", critest.Fault{Before: errors.New("permission denied")})
		failing.Store(true)
		b.until(10*time.Second, "its stop fails", func() bool { return stop.Hits() == 1 })
		failing.Store(false)
		b.fake.Exit("app", 0)
		b.succeedsOnce()
	})
}

// A container that outlives its kill, by far, has not ended for it, also if the daemon does
// not know what became of the kill.
func TestOutlivedKillRestartsNothing(t *testing.T) {
	for name, fault := range map[string]critest.Fault{
		"the stop fails":             {Before: errors.New("permission denied"), Times: -1},
		"the stop's request is lost": {Disconnect: true, Times: -1},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				pod, failing := b.startProbedJob()
				stop := b.fake.Inject("StopContainer", fault)
				failing.Store(true)
				b.until(10*time.Second, "its stop fails", func() bool { return stop.Hits() == 1 })
				b.sigkill()
				stop.Remove()
				failing.Store(false)
				b.after(time.Hour)
				b.fake.Exit("app", 0)
				b.start(manifest.SourceAPI).config.deliver(manifest.SourceAPI, pod)
				b.succeedsOnce()
			})
		})
	}
}
