package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const half = 500 * time.Millisecond

func TestInitialValues(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		slow := every("x", 10, 3)
		slow.InitialDelaySeconds = 60
		b.UpdatePod(podOf("u", now("all", slow, slow, slow), now("live", nil, slow), now("none")))
		b.want("u", "all", "started=false ready=false")
		b.want("u", "live", "")
		b.want("u", "none", "")
		b.want("other", "none", "")
		if b.notified("u") {
			t.Error("initial values are reported as a change")
		}
	})
}

func TestThresholdsCountResultsInARow(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		probe := every("ready", 1, 3)
		probe.SuccessThreshold = 2
		b.UpdatePod(podOf("u", now("c", nil, nil, probe)))
		b.after(half) // the first at once
		b.want("u", "c", "ready=false")
		b.after(time.Second)
		b.want("u", "c", "ready=true")
		if !b.notified("u") {
			t.Error("there was no notification")
		}
		b.says("ready", 1)
		b.after(2 * time.Second)
		b.says("ready", 0)
		b.after(time.Second)
		b.says("ready", 1)
		b.after(2 * time.Second)
		b.want("u", "c", "ready=true")
		if b.notified("u") {
			t.Error("there was a notification although nothing changed")
		}
		b.after(time.Second)
		b.want("u", "c", "ready=false")
		if !b.notified("u") {
			t.Error("there was no notification")
		}
		b.says("ready", 0)
		b.after(time.Second)
		b.want("u", "c", "ready=false")
		b.after(time.Second)
		b.want("u", "c", "ready=true")
	})
}

func TestInitialDelayAndPeriod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		probe := every("live", 10, 3)
		probe.InitialDelaySeconds = 7
		began := time.Now()
		b.UpdatePod(podOf("u", now("c", nil, probe)))
		b.after(time.Minute)
		var at []time.Duration
		for _, asked := range b.asked["live"] {
			at = append(at, asked.Sub(began))
		}
		if want := []time.Duration{7e9, 17e9, 27e9, 37e9, 47e9, 57e9}; !slices.Equal(at, want) {
			t.Errorf("probed at %v, want %v", at, want)
		}
	})
}

// A container that was started before the clock was set, back or forward, is
// probed after its delay at the latest, and continues to be probed.
func TestInitialDelayWhenTheClockIsSet(t *testing.T) {
	for name, c := range map[string]struct {
		started time.Duration // from now
		first   time.Duration
	}{
		"started in the future": {365 * 24 * time.Hour, 7 * time.Second},
		"started long ago":      {-365 * 24 * time.Hour, 0},
		"started just now":      {-2 * time.Second, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *proberHarness) {
				probe := every("live", 10, 3)
				probe.InitialDelaySeconds = 7
				began := time.Now()
				container := now("c", nil, probe)
				// As the runtime reports it: without a monotonic
				// reading.
				container.StartedAt = began.Add(c.started).Round(0)
				b.UpdatePod(podOf("u", container))
				b.after(time.Minute)
				asked := b.asked["live"]
				if len(asked) < 5 {
					t.Fatalf("probed %d times in a minute", len(asked))
				}
				// Probes of containers that ran before the daemon
				// started are spread over a period.
				if at := asked[0].Sub(began); at < c.first || at > c.first+10*time.Second || c.started > 0 && at != c.first {
					t.Errorf("first probed after %s, want %s", at, c.first)
				}
			})
		})
	}
}

func TestStartupBlocksOtherProbes(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		b.says("start", 1)
		b.UpdatePod(podOf("u", now("c", every("start", 1, 100), every("live", 10, 1), every("ready", 10, 1))))
		b.after(20*time.Second + half)
		if b.times("live")+b.times("ready") > 0 {
			t.Error("probed before it has started")
		}
		b.says("start", 0)
		b.after(time.Second)
		b.want("u", "c", "started=true ready=true")
		if b.times("live") != 1 {
			t.Error("liveness is not probed as soon as it has started")
		}
		n := b.times("start")
		b.after(time.Hour)
		if b.times("start") != n {
			t.Error("the startup probe ran after the container had started")
		}
	})
}

func TestLivenessFailureIsFinal(t *testing.T) {
	for kind, probes := range map[Kind][]*v1.Probe{
		Startup:  {every("x", 1, 2), every("other", 1, 1)},
		Liveness: {nil, every("x", 1, 2)},
	} {
		t.Run(kind.String(), func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *proberHarness) {
				b.says("x", 1)
				first, started := now("c", probes...), ""
				if kind == Startup {
					started = "started=false "
				}
				b.UpdatePod(podOf("u", first))
				b.after(half)
				b.want("u", "c", started[:max(0, len(started)-1)])
				b.after(time.Second)
				b.want("u", "c", started+"failed="+kind.String())
				if !b.notified("u") {
					t.Error("there was no notification")
				}
				b.says("x", 0)
				b.UpdatePod(podOf("u", first))
				b.after(time.Minute)
				b.want("u", "c", started+"failed="+kind.String())
				if n := b.times("x"); n != 2 {
					t.Errorf("probed %d times, 2 decide", n)
				}
				b.says("x", 1)
				b.UpdatePod(podOf("u", now("d", probes...)))
				b.want("u", "c", "")
				b.after(half)
				// The count starts over.
				b.want("u", "d", started[:max(0, len(started)-1)])
				if want := fmt.Sprintf("Warning Unhealthy %s probe failed: command exited with 1", kind); b.events[0] != want {
					t.Errorf("event %q, want %q", b.events[0], want)
				}
			})
		})
	}
}

// Events distinguish containers of one pod that fail in the same way.
func TestEventsNameTheContainerAmongSeveral(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		first, second := now("1", nil, nil, every("x", 1, 1)), now("2", nil, nil, every("x", 1, 1))
		first.Spec.Name, second.Spec.Name = "first", "second"
		pod := podOf("u", first, second)
		pod.Pod.Spec.Containers = []v1.Container{*first.Spec, *second.Spec}
		b.says("x", 1)
		b.UpdatePod(pod)
		b.after(half)
		slices.Sort(b.events)
		want := []string{
			"Warning Unhealthy Readiness probe failed: command exited with 1 (container first)",
			"Warning Unhealthy Readiness probe failed: command exited with 1 (container second)",
		}
		if !slices.Equal(b.events, want) {
			t.Errorf("events %q, want %q", b.events, want)
		}
	})
}

func TestFailedAttemptsAreNotResults(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		b.does("x", func(context.Context) (ExecResult, error) { return ExecResult{}, errors.New("no shim") })
		b.UpdatePod(podOf("u", now("c", nil, every("x", 1, 1), every("x", 1, 1))))
		b.after(10*time.Second + half)
		b.want("u", "c", "ready=false")
		if n := b.times("x"); n != 2*11*attempts {
			t.Errorf("%d attempts in 11 rounds of 2", n)
		}
		if want := "Warning Unhealthy Liveness probe errored and resulted in unknown state: no shim"; !slices.Contains(
			b.events, want) {
			t.Errorf("events %q, want %q", b.events[:2], want)
		}
		tries := 0
		b.does("x", func(context.Context) (ExecResult, error) {
			if tries++; tries%attempts != 0 {
				return ExecResult{}, errors.New("no shim")
			}
			return ExecResult{}, nil
		})
		b.UpdatePod(podOf("u", now("d", nil, nil, every("x", 1, 1))))
		b.after(half)
		b.want("u", "d", "ready=true")
	})
}

func TestSlowProbeDelaysNoOthers(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		b.does("slow", func(ctx context.Context) (ExecResult, error) {
			select {
			case <-time.After(25 * time.Second):
				return ExecResult{TimedOut: true}, nil
			case <-ctx.Done():
				return ExecResult{}, ctx.Err()
			}
		})
		for i := range 100 {
			b.UpdatePod(podOf(types.UID(fmt.Sprint("slow", i)), now("c", nil, nil, every("slow", 10, 2))))
		}
		b.UpdatePod(podOf("u", now("c", nil, every("live", 1, 1), every("slow", 1, 2))))
		b.after(time.Minute + half)
		if n := b.times("live"); n != 61 {
			t.Errorf("probed %d times in 60 s", n)
		}
		// It is probed again as soon as the previous probe has ended,
		// and never twice at a time.
		if n := b.times("slow"); n != 101*3 {
			t.Errorf("the slow ones were probed %d times in 60 s", n)
		}
	})
}

func TestTerminatingPod(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		hung := 0
		b.does("hung", func(ctx context.Context) (ExecResult, error) {
			hung++
			<-ctx.Done()
			hung--
			return ExecResult{ExitCode: 1}, nil
		})
		b.UpdatePod(podOf("u", now("c", nil, every("live", 1, 1), every("ready", 1, 1)), now("d", nil, every("hung", 1, 1)),
			now("e", every("start", 1, 9))))
		b.says("start", 1)
		b.after(half)
		b.StopLivenessAndStartup("u")
		b.says("live", 1)
		b.says("ready", 1)
		b.after(time.Second)
		if hung != 0 {
			t.Error("the probe in flight continued")
		}
		b.want("u", "c", "ready=false")
		b.want("u", "d", "")
		b.want("u", "e", "started=false")
		n := b.times("live") + b.times("start") + b.times("hung")
		b.UpdatePod(podOf("u", now("new", nil, every("live", 1, 1), every("ready", 1, 1))))
		b.after(time.Minute)
		if b.times("live")+b.times("start")+b.times("hung") != n {
			t.Error("a probe that can kill continues")
		}
		b.want("u", "new", "ready=false")
		if b.times("ready") < 60 {
			t.Error("readiness is not probed any more")
		}
		b.RemovePod("u")
		n = b.times("ready")
		b.after(time.Minute)
		if b.times("ready") != n || b.queue.Len() > 0 || len(b.pods) > 0 {
			t.Error("state of a removed pod is left")
		}
		// A pod with the same UID may run again.
		b.says("ready", 0)
		b.UpdatePod(podOf("u", now("again", nil, nil, every("ready", 1, 1))))
		b.after(half)
		b.want("u", "again", "ready=true")
	})
}

func TestPreviousState(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		long := time.Now().Add(-time.Hour)
		var all []Container
		for i := range 100 {
			c := now(fmt.Sprint(i), every("start", 100, 1), every("live", 100, 1), every("ready", 100, 1))
			c.StartedAt, c.Previous = long, &PreviousState{Ready: true, Started: true}
			all = append(all, c)
		}
		b.UpdatePod(podOf("u", all...))
		b.want("u", "1", "started=true ready=true")
		b.says("ready", 1)
		b.after(25 * time.Second)
		if n := b.times("live"); n < 5 || n > 50 {
			t.Errorf("%d of 100 probed in the first quarter of the period", n)
		}
		if b.times("start") > 0 {
			t.Error("the startup probe ran although the result is known")
		}
		b.after(100 * time.Second)
		b.want("u", "1", "started=true ready=false")
		// The known start counts once.
		b.UpdatePod(podOf("u", all...))
		b.want("u", "1", "started=true ready=false")

		unready := now("x", every("start", 100, 1), nil, every("ready", 100, 1))
		unready.StartedAt, unready.Previous = long, &PreviousState{Started: false, Ready: false}
		b.UpdatePod(podOf("v", unready))
		b.want("v", "x", "started=false ready=false")
	})
}

func TestNothingRunsAfterRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newProberHarness(t)
		b.does("hung", func(ctx context.Context) (ExecResult, error) {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // slow to notice the cancellation
			return ExecResult{ExitCode: 1}, nil
		})
		b.UpdatePod(podOf("u", now("c", nil, every("hung", 1, 1), every("ready", 1, 1))))
		b.after(10 * time.Second)
		b.stop()
		b.want("u", "c", "ready=true")
		n := b.times("ready")
		b.after(time.Minute)
		if b.times("ready") != n || len(b.events) > 0 {
			t.Error("probes continue")
		}
		// The bubble fails the test if a goroutine is left.
	})
}

func TestThousandProbesASecond(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		const pods, rounds = 1000, 60
		for i := range pods {
			b.UpdatePod(podOf(types.UID(fmt.Sprint(i)), now("c", nil, nil, every("ready", 1, 1))))
		}
		b.after(half)
		for range rounds {
			before := b.times("ready")
			code := int32(0)
			if len(b.asked["ready"])/pods%2 == 1 {
				code = 1
			}
			b.says("ready", code)
			b.TakeChanged()
			b.after(time.Second)
			if n := b.times("ready") - before; n != pods {
				t.Fatalf("%d of %d probed in a second", n, pods)
			}
			if n := len(b.TakeChanged()); n != pods {
				t.Fatalf("%d of %d changes reported", n, pods)
			}
		}
	})
}

// BenchmarkThousandProbes measures one second of 1,000 probes with a period of
// 1 s, without the cost of the probed targets.
func BenchmarkThousandProbes(b *testing.B) {
	asked := make(chan struct{}, 1000)
	p := New(Config{Exec: execFunc(func(context.Context, string, []string, time.Duration) (ExecResult, error) {
		asked <- struct{}{}
		return ExecResult{}, nil
	})})
	for i := range 1000 {
		p.UpdatePod(podOf(types.UID(fmt.Sprint(i)), now("c", nil, nil, every("ready", 1, 1))))
	}
	b.ReportAllocs()
	for b.Loop() {
		p.mu.Lock()
		for _, w := range p.queue {
			w.due = time.Time{}
		}
		p.mu.Unlock()
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan struct{})
		go func() { _ = p.Run(ctx); close(ended) }()
		for range 1000 {
			<-asked
		}
		for p.resting() < 1000 {
			time.Sleep(time.Microsecond)
		}
		cancel()
		<-ended
	}
}

func (p *Prober) resting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.queue)
}

type execFunc func(context.Context, string, []string, time.Duration) (ExecResult, error)

func (f execFunc) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (ExecResult, error) {
	return f(ctx, id, command, timeout)
}
