package supervisor

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/supervisor/rollout"
)

// A revision that comes into effect again is a new pod, whose containers have not restarted. If its
// previous run has not ended, it is the same pod that is restarted, as at podstead restart.
func TestRestartCountAfterUndoAndRetry(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.SetImages("img:1")
		b.fake.Behave("app", critest.Behaviour{StopAfter: 5 * time.Second})
		d := b.start()
		for _, uid := range []types.UID{"u1", "u2"} {
			d.config.deliver(file, testPod("web", uid, string(uid)))
			b.awaitReady(uid)
		}
		b.fake.Exit("web/app", 1)
		check := func(uid types.UID, state rollout.State, restarts int32, request func() error) {
			t.Helper()
			starts := b.fake.Starts(string(uid), "app")
			if err := request(); err != nil {
				t.Fatal(err)
			}
			b.awaitState(state, uid)
			b.until(time.Minute, "it is started", func() bool { return b.fake.Starts(string(uid), "app") == starts+1 })
			b.awaitReady(uid)
			if list := d.status(uid).ContainerStatuses; len(list) != 1 || list[0].RestartCount != restarts ||
				(list[0].LastTerminationState.Terminated != nil) != (restarts > 0) {
				t.Errorf("%s after it came into effect again: %+v", uid, list)
			}
		}
		check("u1", rollout.Undone, 0, func() error { return d.rollouts.Undo("default/web", "") })
		check("u2", rollout.Stable, 0, func() error { return d.rollouts.Retry("default/web") })
		check("u1", rollout.Undone, 0, func() error { return d.rollouts.Undo("default/web", "") })
		first := d.rollout(t, "web").Revision
		// Its run has not ended when it comes into effect again.
		if err := d.rollouts.Retry("default/web"); err != nil {
			t.Fatal(err)
		}
		b.until(time.Minute, "u2 is in effect", func() bool { return d.rollout(t, "web").UID == "u2" })
		if b.running("u1") != 1 {
			t.Error("u1 has ended already")
		}
		check("u1", rollout.Undone, 1, func() error { return d.rollouts.Undo("default/web", first) })
	})
}
