package supervisor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/status"
)

// An evicted pod whose stop waits or fails keeps the reason of its eviction, and its message reports
// what its stop waits for, only as long as it does.
func TestReasonOfAnEvictedPodThatCannotBeStopped(t *testing.T) {
	const count = 60
	for name, c := range map[string]struct {
		method string
		fault  critest.Fault
		others int // pods that are stopped before it
		phase  v1.PodPhase
		words  string
	}{
		"its stop waits": {others: count - 1, phase: v1.PodRunning, words: "waiting for the stops of other pods"},
		"its stop fails": {method: "StopContainer", fault: critest.Fault{Times: 5, Before: errors.New("shim is stuck")},
			phase: v1.PodRunning, words: "error killing pod: "},
		"its sandbox's fails": {method: "StopPodSandbox", fault: critest.Fault{Times: 5, Before: errors.New("CNI is broken")},
			phase: v1.PodFailed, words: "CNI is broken"},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, func(t *testing.T, b *supervisorHarness) {
				b.returns = map[string]RestartPolicy{
					eviction.Reason: func(*v1.Pod, status.Disruption) (bool, time.Duration) { return false, 0 }}
				b.fake.Behave("*", critest.Behaviour{IgnoreTerm: true})
				d := b.start()
				evicted := testPod("evicted", "u", "1")
				pods := []*v1.Pod{evicted}
				for i := range c.others {
					pods = append(pods, testPod(fmt.Sprintf("p%d", i), types.UID(fmt.Sprintf("u%d", i)), "1"))
				}
				d.config.deliver(manifest.SourceFile, pods...)
				b.until(5*time.Minute, "all pods run", func() bool { return b.fake.Running() == len(pods) })
				b.after(time.Second)
				if c.fault.Times > 0 {
					b.fake.Inject(c.method, c.fault)
				}
				d.config.deliver(manifest.SourceFile, evicted)
				b.after(time.Millisecond)
				grace := int64(3)
				if err := d.Disrupt("u", eviction, &grace); err != nil {
					t.Fatal(err)
				}
				shown := false
				b.until(5*time.Minute, "it has ended", func() bool {
					st := d.status("u")
					if st.Reason != "" && st.Reason != eviction.Reason {
						t.Errorf("the reason is %q (%s)", st.Reason, st.Message)
					}
					if st.Phase == c.phase && st.Reason == eviction.Reason && strings.HasPrefix(st.Message, eviction.Message+"; ") &&
						strings.Contains(st.Message, c.words) {
						shown = true
					}
					return d.Ended("u")
				})
				if shown != (c.words != "") {
					t.Errorf("its status showed %q: %v", c.words, shown)
				}
				if st := d.status("u"); st.Phase != v1.PodFailed || st.Reason != eviction.Reason || st.Message != eviction.Message {
					t.Errorf("at its end it is %s, %q, %q", st.Phase, st.Reason, st.Message)
				}
			})
		})
	}
}
