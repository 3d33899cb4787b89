package probe

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// proberHarness is a prober over a scripted runtime, in a synctest bubble.
type proberHarness struct {
	*Prober
	t    testing.TB
	stop func()

	mu sync.Mutex
	// asked holds the times at which each command was run, by its first
	// word, answer the result of each; none means success.
	asked    map[string][]time.Time
	response map[string]func(ctx context.Context) (ExecResult, error)
	events   []string
}

func withTestbed(t *testing.T, f func(t *testing.T, b *proberHarness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newProberHarness(t)
		defer b.stop()
		f(t, b)
	})
}

func newProberHarness(t testing.TB) *proberHarness {
	b := &proberHarness{t: t, asked: map[string][]time.Time{},
		response: map[string]func(context.Context) (ExecResult, error){}}
	b.Prober = New(Config{Exec: b, Events: b, UserAgent: "podstead-probe/1"})
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { _ = b.Run(ctx) })
	b.stop = sync.OnceFunc(func() {
		cancel()
		run.Wait()
	})
	return b
}

func (b *proberHarness) Exec(ctx context.Context, _ string, command []string, _ time.Duration) (ExecResult, error) {
	b.mu.Lock()
	b.asked[command[0]] = append(b.asked[command[0]], time.Now())
	response := b.response[command[0]]
	b.mu.Unlock()
	if response == nil {
		return ExecResult{}, nil
	}
	return response(ctx)
}

func (b *proberHarness) Event(_ *v1.Pod, eventType, reason, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, eventType+" "+reason+" "+message)
}

// reports sets the exit code of a command from now on.
func (b *proberHarness) says(command string, code int32) {
	b.does(command, func(context.Context) (ExecResult, error) { return ExecResult{ExitCode: code}, nil })
}

func (b *proberHarness) does(command string, response func(context.Context) (ExecResult, error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.response[command] = response
}

func (b *proberHarness) times(command string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asked[command])
}

// after advances the time and waits until all is idle, half a second past the
// probes.
func (b *proberHarness) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// want compares the results of container c, and drops a pending notification.
func (b *proberHarness) want(uid types.UID, id, state string) {
	b.t.Helper()
	r := b.Results(uid)
	got := ""
	if v, ok := r.Started[id]; ok {
		got += fmt.Sprintf(" started=%t", v)
	}
	if v, ok := r.Ready[id]; ok {
		got += fmt.Sprintf(" ready=%t", v)
	}
	if v, ok := r.Failed[id]; ok {
		got += " failed=" + v.String()
	}
	if got != state && got != " "+state {
		b.t.Errorf("after %d events: %s, want %s", len(b.events), got, state)
	}
}

// notified reports whether there was a notification for this pod only.
func (b *proberHarness) notified(uid types.UID) bool {
	select {
	case <-b.Changed():
	default:
		return false
	}
	uids := b.TakeChanged()
	return len(uids) == 1 && uids[0] == uid
}

// every returns a probe that runs a command.
func every(command string, period, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{command}}},
		PeriodSeconds: period, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

func podOf(uid types.UID, containers ...Container) Pod {
	return Pod{Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}}, Containers: containers}
}

// now returns a container with probes by kind that has just started.
func now(id string, probes ...*v1.Probe) Container {
	probes = append(probes, nil, nil, nil)
	return Container{ID: id, StartedAt: time.Now(), Spec: &v1.Container{
		Name: "c", StartupProbe: probes[Startup], LivenessProbe: probes[Liveness], ReadinessProbe: probes[Readiness],
	}}
}
