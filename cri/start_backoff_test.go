package cri_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
)

// A worker is notified of what its own failed attempts leave in the runtime, so
// a sync on each notification must not attempt a start each time.
func TestStartBackoff(t *testing.T) {
	for name, c := range map[string]struct{ method, key string }{
		"sandbox":   {"RunPodSandbox", ""},
		"container": {"CreateContainer", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
				fault := b.fake.Inject(c.method, critest.Fault{Before: errors.New("no network"), Times: -1})
				begun := time.Now()
				for time.Since(begun) < time.Minute {
					r := b.sync()
					if r.Waiting[c.key].Message == "" {
						t.Fatalf("after %s: %+v does not state why it waits", time.Since(begun), r)
					}
					if r.Err == nil && (r.RetryAfter <= 0 || r.RetryAfter > 10*time.Second) {
						t.Fatalf("after %s: delayed for %s", time.Since(begun), r.RetryAfter)
					}
					time.Sleep(100 * time.Millisecond)
				}
				// At 0, 0.1, then after 1, 2, 4, 8, 10, 10, 10 and 10 s.
				if n := b.fake.Calls(c.method); n < 9 || n > 11 {
					t.Errorf("%d attempts in a minute, want about 10", n)
				}

				// A changed manifest is tried at once, and so is a
				// start that succeeds.
				b.pod = b.pod.DeepCopy()
				b.pod.Annotations = map[string]string{"kubernetes.io/config.hash": "another"}
				before := b.fake.Calls(c.method)
				if b.sync(); b.fake.Calls(c.method) != before+1 {
					t.Error("a changed manifest is delayed")
				}
				fault.Remove()
				b.settle()
				b.runs("a")
			})
		})
	}
}
