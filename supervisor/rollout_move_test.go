package supervisor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/rollout"
)

// movedWhileAway starts a pod from a file, and a daemon for which the file is gone; the URL
// has not responded.
func movedWhileAway(b *supervisorHarness) *daemon {
	b.t.Helper()
	b.kill()
	b.fake.SetImages("img:1")
	d := b.start(file, manifest.SourceHTTP)
	d.config.deliver(manifest.SourceHTTP)
	d.config.deliver(file, testPod("web", "u1", "r1"))
	b.awaitReady("u1")
	b.after(5 * time.Second)
	b.kill()
	d = b.start(file, manifest.SourceHTTP)
	d.config.deliver(file)
	return d
}

// A manifest that moves to another source while the daemon is away, and changes, is prepared
// while the previous revision runs on, whichever source delivers first.
func TestPodMovesBetweenSourcesWhileTheDaemonIsAway(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := movedWhileAway(b)
		b.after(20 * time.Second)
		b.only("u1", 1)
		if pods := d.Pods(); len(pods) != 1 || pods[0].UID != "u1" || pods[0].DeletionTimestamp == nil ||
			d.Pods()[0] != pods[0] {
			t.Errorf("a client sees %v", pods)
		}
		hold := b.fake.HoldPull("img:2")
		d.config.deliver(manifest.SourceHTTP, withImage(testPod("web", "u2", "r2"), "img:2"))
		b.awaitHeld("u1", "Pulling")
		if pods := d.Pods(); len(pods) != 1 || pods[0].UID != "u1" || pods[0].DeletionTimestamp != nil {
			t.Errorf("a client sees %v", pods)
		}
		b.after(5 * time.Minute)
		b.only("u1", 1)
		hold.Release()
		b.runs("u2")
		b.gone("u1")
		b.only("u2", 1)
		if st := d.rollout(t, "web"); st.State != rollout.Stable {
			t.Errorf("%+v", st)
		}
		// And back, where the other source delivers first.
		b.after(5 * time.Second)
		b.kill()
		d = b.start(file, manifest.SourceHTTP)
		hold = b.fake.HoldPull("img:3")
		d.config.deliver(file, withImage(testPod("web", "u3", "r3"), "img:3"))
		d.config.deliver(manifest.SourceHTTP)
		b.awaitHeld("u2", "Pulling")
		b.after(5 * time.Minute)
		b.only("u2", 1)
		hold.Release()
		b.runs("u3")
		b.gone("u2")
	})
}

// A pod whose manifest was removed while the daemon was away ends at once when all sources
// have delivered, and otherwise after a moment.
func TestPodThatMovesNowhereEnds(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		d := movedWhileAway(b)
		b.after(2 * time.Second)
		b.only("u1", 1)
		d.config.deliver(manifest.SourceHTTP)
		if took := b.until(time.Minute, "u1 ends", func() bool { return b.running("u1") == 0 }); took > 3*time.Second {
			t.Errorf("it ended %s after the last source had delivered", took)
		}
		b.gone("u1")
		if _, err := os.Stat(b.path("rollouts/default/web")); !os.IsNotExist(err) {
			t.Errorf("its rollout is left: %v", err)
		}
		d = movedWhileAway(b)
		if took := b.until(time.Minute, "u1 ends", func() bool { return b.running("u1") == 0 }); took < 25*time.Second ||
			took > 35*time.Second {
			t.Errorf("it ended after %s, though a source has not delivered", took)
		}
		b.gone("u1")
		// It is a new pod now.
		d.config.deliver(manifest.SourceHTTP, testPod("web", "u2", "r2"))
		b.runs("u2")
		b.only("u2", 1)
	})
}

// After a boot nothing of a pod that no source declares is started again.
func TestMovedPodIsNotStartedAfterABoot(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		movedWhileAway(b)
		b.sigkill()
		b.fake.Reboot()
		starts := b.fake.Starts("u1", "app")
		b.start(file, manifest.SourceHTTP).config.deliver(file)
		b.after(time.Minute)
		if n := b.fake.Starts("u1", "app"); n != starts || b.fake.Running() != 0 {
			t.Errorf("%d starts more, %d containers run", n-starts, b.fake.Running())
		}
	})
}

// Directories of rollouts that a killed daemon left are removed: those without a state at
// the start, and all of pods that no source declares when all sources have delivered.
func TestLeftoverDirectoriesOfRolloutsAreRemoved(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		for _, path := range []string{"other/empty/x", "default/half/0123456789.json", "default/half/state.json.tmp",
			"gone/newer/state.json.newer", "gone/damaged/state.json"} {
			path = filepath.Join(b.path("rollouts"), path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		left := func(want ...string) {
			t.Helper()
			b.after(5 * time.Second)
			found, err := filepath.Glob(filepath.Join(b.path("rollouts"), "*", "*"))
			if err != nil || len(found) != len(want) {
				t.Errorf("%q, %v; want %q", found, err, want)
			}
			for _, name := range want {
				if _, err := os.Stat(filepath.Join(b.path("rollouts"), name)); err != nil {
					t.Error(err)
				}
			}
		}
		d := b.start(file, manifest.SourceHTTP)
		left("gone/newer", "gone/damaged")
		d.config.deliver(file, testPod("web", "u1", "r1"))
		left("gone/newer", "gone/damaged", "default/web")
		d.config.deliver(manifest.SourceHTTP)
		left("default/web")
		if _, err := os.Stat(filepath.Join(b.path("rollouts"), "gone")); !os.IsNotExist(err) {
			t.Errorf("the directory of a namespace is left: %v", err)
		}
	})
}

// A client that asks right after the start of the daemon is shown a pod that is still to end.
func TestOrphanIsShownToTheFirstClient(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *supervisorHarness) {
		b.fake.Behave("app", critest.Behaviour{StopAfter: 10 * time.Second})
		d := b.start()
		d.config.deliver(file, testPod("web", "u1", "r1"))
		b.runs("u1")
		b.kill()
		d = b.start()
		var pods []*v1.Pod
		asked := make(chan struct{})
		go func() { pods = d.SyncedPods(); close(asked) }()
		b.after(100 * time.Millisecond)
		d.config.deliver(file)
		<-asked
		if len(pods) != 1 || pods[0].Name != "web" || pods[0].DeletionTimestamp == nil {
			t.Errorf("the first client sees %v", pods)
		}
		b.gone("u1")
		if list := d.Pods(); len(list) != 0 {
			t.Errorf("%v", list)
		}
	})
}
