package cri

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// crash simulates one container that keeps exiting.
type crash struct {
	t    *testing.T
	b    *Backoff
	pod  *v1.Pod
	last *Container
	n    int
}

func newCrash(t *testing.T, b *Backoff) *crash {
	return &crash{t: t, b: b, pod: desiredPod(v1.RestartPolicyAlways, []string{"a"})}
}

// start starts the container and lets it run for a duration.
func (c *crash) start(runs time.Duration) {
	c.b.started(c.pod, &c.pod.Spec.Containers[0], c.last, 0)
	c.n++
	c.last = &Container{ID: fmt.Sprint(c.n), Name: "a", State: StateExited, StartedAt: time.Now()}
	time.Sleep(runs)
	c.last.FinishedAt = time.Now()
}

func (c *crash) left() time.Duration {
	left, _ := c.b.wait(c.pod, &c.pod.Spec.Containers[0], c.last, 0)
	return left
}

// restart waits for the back-off and starts the container again.
func (c *crash) restart(want, runs time.Duration) {
	c.t.Helper()
	if got := c.left(); got != want {
		c.t.Errorf("restart %d waits %s, want %s", c.n, got, want)
	}
	if want > 0 {
		time.Sleep(want - time.Nanosecond)
		if c.left() <= 0 {
			c.t.Errorf("restart %d is too early", c.n)
		}
		time.Sleep(time.Nanosecond)
	}
	if got := c.left(); got != 0 {
		c.t.Errorf("restart %d still waits %s", c.n, got)
	}
	c.start(runs)
}

func TestBackoffDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrash(t, NewBackoff(0, ""))
		c.start(time.Second)
		for _, seconds := range []int{0, 10, 20, 40, 80, 160, 300, 300} {
			c.restart(time.Duration(seconds)*time.Second, time.Second)
		}
		// Time that passes between checks counts.
		time.Sleep(4 * time.Minute)
		c.restart(time.Minute, time.Second)
	})
}

func TestBackoffLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrash(t, NewBackoff(15*time.Second, ""))
		c.start(0)
		c.restart(0, 0)
		c.restart(10*time.Second, 0)
		c.restart(15*time.Second, 0)
		c.restart(15*time.Second, 0)

		c = newCrash(t, NewBackoff(time.Second, ""))
		c.start(0)
		c.restart(0, 0)
		c.restart(time.Second, 0)
		c.restart(time.Second, 0)
	})
}

func TestBackoffResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrash(t, NewBackoff(0, ""))
		c.start(0)
		c.restart(0, 0)
		c.restart(10*time.Second, 10*time.Minute) // at most ten minutes
		c.restart(20*time.Second-0, 10*time.Minute+time.Second)
		c.restart(0, 0) // it ran long enough
		c.restart(10*time.Second, 0)

		// Another manifest, image or resources.
		c.pod.Annotations = map[string]string{podinfo.AnnotationHash: "2"}
		c.restart(0, 0)
		c.restart(10*time.Second, 0)
		c.pod.Spec.Containers[0].Image = "other"
		c.restart(0, 0)
		c.restart(10*time.Second, 0)
		c.pod.Spec.Containers[0].Resources = requirements("1 -", "")
		c.restart(0, 0)

		c.b.Forget(c.pod.UID)
		c.restart(0, 0)
	})
}

func TestBackoffFirstStartDoesNotCount(t *testing.T) {
	b := NewBackoff(0, "")
	pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
	for range 3 {
		b.started(pod, &pod.Spec.Containers[0], nil, 0)
	}
	if got := b.Steps(pod.UID); got != nil {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestBackoffWallClockJumps(t *testing.T) {
	for name, shift := range map[string]time.Duration{"finished in the future": 24 * time.Hour, "finished now": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrash(t, NewBackoff(0, ""))
				c.start(0)
				c.restart(0, 0)
				c.last.StartedAt = c.last.StartedAt.Add(shift)
				c.last.FinishedAt = c.last.StartedAt
				// recovered() must not mistake the clock jump for a
				// long run.
				c.b.pods[c.pod.UID]["a"].step.Updated = c.last.FinishedAt
				// The wait is bounded from the present time, and
				// repeated checks do not extend it.
				for range 10 {
					if left := c.left(); left <= 0 || left > 10*time.Second {
						t.Fatalf("waits %s", left)
					}
					time.Sleep(time.Second)
				}
				if left := c.left(); left != 0 {
					t.Errorf("still waits %s", left)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCrash(t, NewBackoff(0, ""))
		c.start(0)
		c.restart(0, 0)
		c.last.StartedAt, c.last.FinishedAt = time.Time{}, time.Time{}
		if got := c.left(); got != 10*time.Second {
			t.Errorf("a runtime that reports no time: waits %s, want 10s from now", got)
		}
	})
}

// A pod's own limit replaces the node's, whether lower or higher, also for a
// back-off that was recorded under another limit.
func TestBackoffLimitOfThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBackoff(20*time.Second, "")
		pod := desiredPod(v1.RestartPolicyAlways, []string{"a"})
		c := &pod.Spec.Containers[0]
		ends := func(id string) *Container {
			return &Container{ID: id, Name: "a", State: StateExited, StartedAt: time.Now(), FinishedAt: time.Now()}
		}
		for i, want := range []time.Duration{0, 10 * time.Second, 20 * time.Second, 40 * time.Second, 60 * time.Second,
			60 * time.Second} {
			last := ends(fmt.Sprint(i))
			if got, _ := b.wait(pod, c, last, time.Minute); got != want {
				t.Errorf("restart %d waits %s, want %s", i, got, want)
			}
			b.started(pod, c, last, time.Minute)
		}
		again := NewBackoff(20*time.Second, "")
		again.Restore(pod.UID, b.Steps(pod.UID))
		for limit, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Second: time.Second,
			0: 20 * time.Second} {
			if got, delay := again.wait(pod, c, ends(limit.String()), limit); got != want || delay != want {
				t.Errorf("with a limit of %s it waits %s of %s, want %s", limit, got, delay, want)
			}
		}
	})
}

func TestBackoffSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrash(t, NewBackoff(0, ""))
		c.start(0)
		c.restart(0, 0)
		c.restart(10*time.Second, 0)
		steps := c.b.Steps(c.pod.UID)
		if len(steps) != 1 {
			t.Fatalf("got %v, want one step", steps)
		}
		c.b = NewBackoff(0, "")
		c.b.Restore(c.pod.UID, steps)
		time.Sleep(5 * time.Second)
		c.restart(15*time.Second, 0)
		c.restart(40*time.Second, 0)

		// A lower limit applies to recorded steps, and invalid entries
		// are dropped.
		steps = c.b.Steps(c.pod.UID)
		steps["a"] = BackoffStep{Delay: time.Hour}
		steps["b/x"] = BackoffStep{Delay: -1}
		c.b = NewBackoff(30*time.Second, "")
		c.b.Restore(c.pod.UID, steps)
		if got := c.b.Steps(c.pod.UID); len(got) != 1 {
			t.Errorf("restored %v, want one step", got)
		}
		c.restart(30*time.Second, 0)

		c.b.Restore(c.pod.UID, nil)
		if got := c.b.Steps(c.pod.UID); got != nil {
			t.Errorf("got %v, want nothing", got)
		}
	})
}

// A step of an earlier boot is dropped, one without a boot is of an earlier version of podstead.
func TestBackoffStartsOverAfterABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for recorded, want := range map[string]time.Duration{"one": 10 * time.Second, "two": 0, "": 10 * time.Second} {
			c := newCrash(t, NewBackoff(0, recorded))
			c.start(0)
			c.restart(0, 0)
			steps := c.b.Steps(c.pod.UID)
			c.b = NewBackoff(0, "one")
			c.b.Restore(c.pod.UID, steps)
			if got := c.left(); got != want {
				t.Errorf("after a boot %q it waits %s, want %s", recorded, got, want)
			}
		}
	})
}

func TestBackoffKeepsPodsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBackoff(0, "")
		one, other := newCrash(t, b), newCrash(t, b)
		other.pod.UID = "uid-2"
		one.start(0)
		one.restart(0, 0)
		other.start(0)
		other.restart(0, 0)
		if one.left() != 10*time.Second || other.left() != 10*time.Second {
			t.Errorf("got %s and %s", one.left(), other.left())
		}
	})
}
