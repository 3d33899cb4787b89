package rollouts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// watchForTwo asks the runtime all the time which sandboxes of a pod are ready and which of its
// containers run, until the returned function is called, which fails the test if there were
// ever two at once.
func watchForTwo(n *harness.Node, name string) (end func()) {
	ctx, cancel := context.WithCancel(n.T.Context())
	twice, ended := "", make(chan struct{})
	rounds := 0
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			list, err := n.Runtime.CRI.Containers(ctx, "io.kubernetes.pod.name", n.PodName(name))
			running := map[string]bool{}
			for _, c := range list {
				if c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
					running[c.Labels["io.kubernetes.pod.uid"]+"/"+c.Id] = true
				}
			}
			if err == nil {
				rounds++
			}
			if len(running) > 1 {
				twice = fmt.Sprint(running)
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() {
		n.T.Helper()
		cancel()
		<-ended
		if twice != "" || rounds == 0 {
			n.T.Errorf("in %d looks at the runtime, these ran at the same time: %s", rounds, twice)
		}
	}
}

// A rollback to a revision that is not Ready any more stays, and status, event and commands
// say that neither works; what was missing makes it Ready without a command.
func TestRollbackThatIsBroken(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		needed := filepath.Join(n.OutDir(), "needed")
		if err := os.MkdirAll(n.OutDir(), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(needed, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		writeRevision(n, rolloutPod{word: "one", after: "10s", probe: "test -e /out/needed"})
		n.MustStart()
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		first := awaitRollout(n, "Stable").Revision
		defer watchForTwo(n, "p")()

		if err := os.Remove(needed); err != nil {
			t.Fatal(err)
		}
		writeRevision(n, rolloutPod{word: "two", after: "5s", probe: "test -e /out/needed"})
		n.AwaitRevision("p", "two")
		got := awaitRollout(n, "RolledBack", "it was not Ready within 5s",
			"revision "+first+" is not Ready either: it was not Ready within 10s")
		if got.Revision != first || got.LastGood != first {
			t.Errorf("%+v, want revision %s", got, first)
		}
		one := n.AwaitRevision("p", "one")
		awaitRevisionHeld(n, "p", "RolledBack", "is not Ready either")
		n.AwaitEvent("p", "RolledBack", "is not Ready either")
		n.CLI(1, []string{"RolledBack", "is not Ready either"}, "rollout", "status", "p")
		n.CLI(0, []string{"is not Ready either"}, "describe", "pod", "p")
		// Nothing is tried in turns, also by another daemon.
		n.Restart()
		awaitRollout(n, "RolledBack", "was rolled back: it was not Ready within 5s")
		n.MustStillRun("p", one)

		if err := os.WriteFile(needed, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		n.AwaitReady("p")
		n.Await("the rollback is good", func() error {
			if got := awaitRollout(n, "RolledBack", "it was not Ready within 5s"); got.LastGood != first {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
		n.MustStillRun("p", one)
	})
}

// A rollback whose image was removed, and is not at the registry any more, cannot be prepared:
// the revision that failed stays, commands say what is missing, and the rollback goes on when
// the image is back.
func TestRollbackWithoutItsImage(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository := "library/rollback-" + n.Name
		ref, _ := n.Push(repository)
		writeRevision(n, rolloutPod{word: "one", after: "1h", probe: "true", image: ref})
		n.MustStart()
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		first := awaitRollout(n, "Stable").Revision
		defer watchForTwo(n, "p")()

		writeRevision(n, rolloutPod{word: "two", after: "40s", probe: "false"})
		two := n.AwaitRevision("p", "two")
		if err := harness.Registry.Untag(ref); err != nil {
			t.Fatal(err)
		}
		n.Await("nothing of the first revision is left, and its image is removed", func() error {
			list, err := n.Runtime.CRI.Containers(t.Context(), "io.kubernetes.pod.name", n.PodName("p"))
			if err != nil || len(list) != 1 {
				return fmt.Errorf("%d containers, %v", len(list), err)
			}
			_, err = n.Runtime.CRI.Images.RemoveImage(t.Context(),
				&runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
			if id := imageID(n, ref); err == nil && id != "" {
				err = fmt.Errorf("the runtime has %s", id)
			}
			return err
		})
		awaitRollout(n, "RollingBack", "it was not Ready within 40s", "the last good revision "+first, ref)
		awaitRevisionHeld(n, "p", "RolledBack", ref)
		n.AwaitEvent("p", "RolloutPreparing", ref)
		n.CLI(124, []string{"RollingBack", ref}, "rollout", "status", "p", "--timeout", "1s")
		n.MustStillRun("p", two)
		n.Restart()
		awaitRollout(n, "RollingBack", ref)
		n.MustStillRun("p", two)

		pushAgain(n, ref)
		n.CLI(0, nil, "images", "pull", ref)
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		awaitRollout(n, "RolledBack")
	})
}

// pushAgain pushes an image under a reference.
func pushAgain(n *harness.Node, ref string) {
	n.T.Helper()
	if err := harness.Registry.Push(ref, harness.ImageWithFile(n.T, "again")); err != nil {
		n.T.Fatal(err)
	}
}

// A registry that dies between the check of the digest and the pull leaves the container
// running, over a killed daemon too. The update goes on when the registry is back.
func TestRegistryDiesBetweenCheckAndPull(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository := "dies-" + n.Name + "/app"
		ref := harness.Registry.Addr() + "/" + repository + ":1"
		push := func(word string) string {
			img := harness.ImageWithFile(t, word)
			if err := harness.Registry.Push(ref, img); err != nil {
				t.Fatal(err)
			}
			return img.Descriptor().Digest
		}
		first := push("one")
		n.WriteManifest("app.yaml", updatedPod("registry", ref, "1", ""))
		n.MustStart()
		n.AwaitReady("app")
		main := n.AwaitRunning("app")
		second := push("two")
		revive := harness.Registry.DieAtPull(repository)
		defer revive()
		if got := autoUpdate(n, "app"); got.State != "Updating" || got.Running != first || got.Latest != second {
			t.Fatalf("%+v, want %s to %s", got, first, second)
		}
		awaitRevisionHeld(n, "app", "RolloutPreparing", "ErrImagePull", second)
		n.AwaitEvent("app", "RolloutPreparing", second)
		n.MustStillRun("app", main)
		if got := autoUpdate(n); got.State != "Failed" && got.State != "Updating" {
			t.Errorf("while the registry is away: %+v", got)
		}
		n.Kill()
		n.MustStart()
		awaitRevisionHeld(n, "app", "RolloutPreparing", second)
		n.MustStillRun("app", main)
		revive()
		n.CLI(0, nil, "rollout", "retry", "app")
		awaitWord(n, "two", catWord)
		if got := autoUpdate(n, "app"); got.State != "Current" || got.Running != second {
			t.Errorf("after the update: %+v", got)
		}
	})
}
