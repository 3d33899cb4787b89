package cri_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

// hooks runs sleep hooks and fails for every other action. It records the hooks
// in order: "a sleep", and "a sleep broken off" for one that was cancelled.
type hooks struct {
	mu   sync.Mutex
	list []string
	ips  []string
}

func (h *hooks) Run(ctx context.Context, hook cri.Hook) error {
	text := hook.Name + " sleep"
	var err error
	if hook.Handler.Sleep == nil {
		text, err = hook.Name+" fails", errors.New("connection refused")
	} else {
		select {
		case <-time.After(time.Duration(hook.Handler.Sleep.Seconds) * time.Second):
		case <-ctx.Done():
			text, err = text+" broken off", ctx.Err()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.list, h.ips = append(h.list, text), append(h.ips, hook.IP)
	return err
}

func (h *hooks) did(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if fmt.Sprint(h.list) != fmt.Sprint(want) {
		t.Errorf("hooks %q, want %q", h.list, want)
	}
	h.list = nil
}

func nap(seconds int64) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: seconds}}
}

func failing() *v1.LifecycleHandler {
	return &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(1)}}
}

// hooked gives the pod's regular containers hooks; nil means none.
func hooked(p *v1.Pod, postStart, preStop *v1.LifecycleHandler) *v1.Pod {
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].Lifecycle = &v1.Lifecycle{PostStart: postStart, PreStop: preStop}
	}
	return p
}

// startedAt returns when the newest instance of a container was started.
func (b *syncerHarness) startedAt(name string) time.Time {
	b.t.Helper()
	c, ok := b.fake.Newest(name)
	if !ok {
		b.t.Fatalf("there is no container %s\n%s", name, b.fake.Dump())
	}
	return c.StartedAt
}

// Each container is started when the previous container's hook has returned.
func TestPostStartComesBeforeTheNext(t *testing.T) {
	withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a", "b"}), nap(3), nil),
		func(t *testing.T, b *syncerHarness) {
			b.settle()
			b.hooks.did(t, "a sleep", "b sleep")
			if gap := b.startedAt("b").Sub(b.startedAt("a")); gap < 3*time.Second-time.Millisecond {
				t.Errorf("b started %s after a", gap)
			}
			if got := b.hooks.ips[0]; got == "" || got != b.observe().IPs[0] {
				t.Errorf("the hook was run against %q", got)
			}
			b.settle()
			b.hooks.did(t)
		})
}

func TestPostStartOnTheHostsNetwork(t *testing.T) {
	p := hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nap(0), nap(0))
	p.Spec.HostNetwork = true
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		b.settle()
		if err := b.kill(10); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(b.hooks.ips); got != "[192.0.2.1 127.0.0.1]" {
			t.Errorf("hooks were run against %s", got)
		}
	})
}

func TestPostStartFails(t *testing.T) {
	p := hooked(pod(v1.RestartPolicyAlways, []string{"a", "b"}), failing(), nap(1))
	p.Spec.Containers[1].Lifecycle = nil
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		r := b.sync()
		if why := r.Waiting["a"]; why.Reason != "PostStartHookError" ||
			!strings.Contains(why.Message, "connection refused") || r.Err == nil {
			t.Errorf("got %+v", r)
		}
		if !b.events.has("FailedPostStartHook: PostStartHook failed: connection refused (container a)") ||
			!b.events.has("Killing: Stopping container a: postStart hook failed") {
			t.Errorf("events %q", b.events.list)
		}
		b.hooks.did(t, "a fails", "a sleep")
		b.runs("b")
		// The next instances are delayed by the crash-loop back-off.
		b.sync()
		if r := b.sync(); r.Waiting["a"].Reason != "CrashLoopBackOff" || b.fake.Starts("uid-1", "a") != 2 {
			t.Errorf("got %+v", r)
		}
		b.fresh("b")
	})
}

// Cancelling a sync cancels the hook, and the next sync runs it again.
func TestPostStartIsPerformedAgain(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a", "b"}), nap(10), nil),
			func(t *testing.T, b *syncerHarness) {
				b.status = b.observe()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if r := b.syncIn(ctx); r.Err == nil || len(r.PostStartDone) > 0 {
					t.Fatalf("got %+v", r)
				}
				b.runs("a")
				if restarted {
					b.restart()
				}
				b.settle()
				b.hooks.did(t, "a sleep broken off", "a sleep", "b sleep")
				b.runs("a", "b")
				b.fresh("a", "b")
			})
	}
}

// A hook that is known to have returned for this instance is not run again.
func TestPostStartIsKnown(t *testing.T) {
	withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nap(0), nil), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.restart()
		b.settle()
		b.hooks.did(t, "a sleep")
		b.fake.Kill("a")
		b.settle()
		b.hooks.did(t, "a sleep")
	})
}

func TestPreStopIsWithinTheGrace(t *testing.T) {
	for name, c := range map[string]struct {
		preStop      *v1.LifecycleHandler
		grace        int64
		took         time.Duration
		performed    string
		event        string
		ignoresAsked bool
	}{
		"short":           {nap(3), 10, 3 * time.Second, "[a sleep]", "", false},
		"time subtracted": {nap(3), 10, 10 * time.Second, "[a sleep]", "", true},
		"too long": {nap(30), 10, 12 * time.Second, "[a sleep broken off]",
			"FailedPreStopHook: PreStopHook failed: it did not finish within the grace period, 10s (container a)", true},
		"grace and more": {nap(11), 10, 12 * time.Second, "[a sleep]", "", true},
		"fails": {failing(), 10, 0, "[a fails]",
			"FailedPreStopHook: PreStopHook failed: connection refused (container a)", false},
		"no grace": {nap(3), 0, 2 * time.Second, "[]", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nil, c.preStop),
				func(t *testing.T, b *syncerHarness) {
					b.settle()
					b.fake.Behave("a", critest.Behaviour{IgnoreTerm: c.ignoresAsked})
					b.restart()
					begun := time.Now()
					if err := b.kill(c.grace); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begun); took < c.took || took > c.took+time.Second {
						t.Errorf("took %s, want %s", took, c.took)
					}
					if got := fmt.Sprint(b.hooks.list); got != c.performed {
						t.Errorf("performed %s, want %s", got, c.performed)
					}
					if got := b.events.has("FailedPreStopHook"); got != (c.event != "") || !b.events.has(c.event) {
						t.Errorf("events %q", b.events.list)
					}
				})
		})
	}
}

// Killing one container runs its hook too, within the probe's grace period.
func TestPreStopBeforeARestart(t *testing.T) {
	withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nil, nap(30)), func(t *testing.T, b *syncerHarness) {
		five := int64(5)
		b.pod.Spec.Containers[0].LivenessProbe = &v1.Probe{TerminationGracePeriodSeconds: &five}
		b.settle()
		a, _ := b.fake.Newest("a")
		begun := time.Now()
		b.status = b.observe()
		r := b.syncer.Sync(t.Context(),
			cri.SyncRequest{Pod: b.pod, Status: b.status, ResolveInputs: b.inputs,
				FailedProbes: map[string]cri.KillReason{a.ID: cri.KillLiveness}})
		if took := time.Since(begun); r.Err != nil || took < 5*time.Second || took > 6*time.Second {
			t.Errorf("took %s, %v", took, r.Err)
		}
		b.hooks.did(t, "a sleep broken off")
	})
}

// A kill that was cancelled is resumed by the next one: a hook that has
// returned is not run again, and the elapsed time still counts.
func TestKillIsShortened(t *testing.T) {
	for name, c := range map[string]struct {
		preStop   int64
		shorter   int64 // after 8 s of 60 s
		took      time.Duration
		performed []string
	}{
		"after the hook":  {3, 10, 18 * time.Second, []string{"a sleep"}},
		"during the hook": {20, 10, 20 * time.Second, []string{"a sleep broken off", "a sleep broken off"}},
		"to one second":   {3, 1, 9 * time.Second, []string{"a sleep"}},
		"unchanged grace": {3, 60, 60 * time.Second, []string{"a sleep"}},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nil, nap(c.preStop)),
				func(t *testing.T, b *syncerHarness) {
					b.settle()
					b.fake.Behave("a", critest.Behaviour{IgnoreTerm: true})
					begun := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
					defer cancel()
					err := b.syncer.Kill(ctx, cri.KillRequest{Pod: b.pod, Observed: b.observe().Pod(), Grace: 60})
					if !errors.Is(err, context.DeadlineExceeded) || b.fake.Ready() != 1 {
						t.Fatalf("got %v", err)
					}
					if err := b.kill(c.shorter); err != nil {
						t.Fatal(err)
					}
					if took := time.Since(begun); took < c.took || took > c.took+time.Second {
						t.Errorf("took %s, want %s", took, c.took)
					}
					b.hooks.did(t, c.performed...)
				})
		})
	}
}

// A runtime that is down for long does not use up the grace period of a
// container that was never asked to stop.
func TestKillKeepsGraceOverFailures(t *testing.T) {
	withTestbed(t, hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nil, nap(4)), func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.fake.Behave("a", critest.Behaviour{StopAfter: 5 * time.Second})
		b.fake.Inject("StopContainer", critest.Fault{Before: errors.New("busy")})
		if err := b.kill(10); err == nil {
			t.Fatal("no error")
		}
		time.Sleep(time.Minute)
		begun := time.Now()
		if err := b.kill(10); err != nil {
			t.Fatal(err)
		}
		if a, _ := b.fake.Newest("a"); a.ExitCode != 0 || time.Since(begun) > 6*time.Second {
			t.Errorf("after %s: %+v", time.Since(begun), a)
		}
		b.hooks.did(t, "a sleep")
		synctest.Wait()
	})
}

// Without a manifest the hook and the termination order come from the
// container's annotations.
func TestKillByAnnotations(t *testing.T) {
	p := hooked(pod(v1.RestartPolicyAlways, []string{"a"}), nil, nap(3))
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "web", ContainerPort: 80}}
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		b.settle()
		b.restart()
		all, err := b.client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := all.Own[0].Containers[0].Ports; len(got) != 1 || got[0].Name != "web" {
			t.Errorf("ports %v", got)
		}
		if err := b.syncer.Kill(t.Context(), cri.KillRequest{Observed: all.Own[0], Grace: 10}); err != nil {
			t.Fatal(err)
		}
		b.hooks.did(t, "a sleep")
	})
}
