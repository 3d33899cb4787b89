package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// watchForTwo asks the runtime all the time which sandboxes of a pod are ready and which of its
// containers run, until the returned function is called, which fails the test if there were
// ever two at once.
func (n *node) watchForTwo(name string) (end func()) {
	ctx, cancel := context.WithCancel(n.t.Context())
	twice, ended := "", make(chan struct{})
	rounds := 0
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			list, err := n.rt.CRI.Containers(ctx, "io.kubernetes.pod.name", n.PodName(name))
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
		n.t.Helper()
		cancel()
		<-ended
		if twice != "" || rounds == 0 {
			n.t.Errorf("in %d looks at the runtime, these ran at the same time: %s", rounds, twice)
		}
	}
}

// A rollback to a revision that is not Ready any more stays, and status, event and commands
// say that neither works; what was missing makes it Ready without a command.
func TestRollbackThatIsBroken(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		needed := filepath.Join(n.outDir(), "needed")
		if err := os.MkdirAll(n.outDir(), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(needed, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		n.writeRevision(rolloutPod{word: "one", after: "10s", probe: "test -e /out/needed"})
		n.start()
		n.awaitRevision("p", "one")
		n.awaitReady("p")
		first := n.awaitRollout("Stable").Revision
		defer n.watchForTwo("p")()

		if err := os.Remove(needed); err != nil {
			t.Fatal(err)
		}
		n.writeRevision(rolloutPod{word: "two", after: "5s", probe: "test -e /out/needed"})
		n.awaitRevision("p", "two")
		got := n.awaitRollout("RolledBack", "it was not Ready within 5s", "revision "+first+" is not Ready either: it was not Ready within 10s")
		if got.Revision != first || got.LastGood != first {
			t.Errorf("%+v, want revision %s", got, first)
		}
		one := n.awaitRevision("p", "one")
		n.awaitRevisionHeld("p", "RolledBack", "is not Ready either")
		n.awaitEvent("p", "RolledBack", "is not Ready either")
		n.cli(1, []string{"RolledBack", "is not Ready either"}, "rollout", "status", "p")
		n.cli(0, []string{"is not Ready either"}, "describe", "pod", "p")
		// Nothing is tried in turns, also by another daemon.
		n.restart()
		n.awaitRollout("RolledBack", "was rolled back: it was not Ready within 5s")
		n.mustStillRun("p", one)

		if err := os.WriteFile(needed, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		n.awaitReady("p")
		n.await("the rollback is good", func() error {
			if got := n.awaitRollout("RolledBack", "it was not Ready within 5s"); got.LastGood != first {
				return fmt.Errorf("%+v", got)
			}
			return nil
		})
		n.mustStillRun("p", one)
	})
}

// A rollback whose image was removed, and is not at the registry any more, cannot be prepared:
// the revision that failed stays, commands say what is missing, and the rollback goes on when
// the image is back.
func TestRollbackWithoutItsImage(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		repository := "library/rollback-" + n.Name
		ref, _ := n.push(repository)
		n.writeRevision(rolloutPod{word: "one", after: "1h", probe: "true", image: ref})
		n.start()
		n.awaitRevision("p", "one")
		n.awaitReady("p")
		first := n.awaitRollout("Stable").Revision
		defer n.watchForTwo("p")()

		n.writeRevision(rolloutPod{word: "two", after: "40s", probe: "false"})
		two := n.awaitRevision("p", "two")
		if err := registry.Untag(ref); err != nil {
			t.Fatal(err)
		}
		n.await("nothing of the first revision is left, and its image is removed", func() error {
			list, err := n.rt.CRI.Containers(t.Context(), "io.kubernetes.pod.name", n.PodName("p"))
			if err != nil || len(list) != 1 {
				return fmt.Errorf("%d containers, %v", len(list), err)
			}
			_, err = n.rt.CRI.Images.RemoveImage(t.Context(), &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: ref}})
			if id := n.imageID(ref); err == nil && id != "" {
				err = fmt.Errorf("the runtime has %s", id)
			}
			return err
		})
		n.awaitRollout("RollingBack", "it was not Ready within 40s", "the last good revision "+first, ref)
		n.awaitRevisionHeld("p", "RolledBack", ref)
		n.awaitEvent("p", "RolloutPreparing", ref)
		n.cli(124, []string{"RollingBack", ref}, "rollout", "status", "p", "--timeout", "1s")
		n.mustStillRun("p", two)
		n.restart()
		n.awaitRollout("RollingBack", ref)
		n.mustStillRun("p", two)

		n.pushAgain(ref)
		n.cli(0, nil, "images", "pull", ref)
		n.awaitRevision("p", "one")
		n.awaitReady("p")
		n.awaitRollout("RolledBack")
	})
}

// pushAgain pushes an image under a reference.
func (n *node) pushAgain(ref string) {
	n.t.Helper()
	if err := registry.Push(ref, imageWithFile(n.t, "again")); err != nil {
		n.t.Fatal(err)
	}
}

// A registry that dies between the check of the digest and the pull leaves the container
// running, over a killed daemon too. The update goes on when the registry is back.
func TestRegistryDiesBetweenCheckAndPull(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		repository := "dies-" + n.Name + "/app"
		ref := registry.Addr() + "/" + repository + ":1"
		push := func(word string) string {
			img := imageWithFile(t, word)
			if err := registry.Push(ref, img); err != nil {
				t.Fatal(err)
			}
			return img.Descriptor().Digest
		}
		first := push("one")
		n.writeManifest("app.yaml", updatedPod("registry", ref, "1", ""))
		n.start()
		n.awaitReady("app")
		main := n.awaitRunning("app")
		second := push("two")
		revive := registry.DieAtPull(repository)
		defer revive()
		if got := n.autoUpdate("app"); got.State != "Updating" || got.Running != first || got.Latest != second {
			t.Fatalf("%+v, want %s to %s", got, first, second)
		}
		n.awaitRevisionHeld("app", "RolloutPreparing", "ErrImagePull", second)
		n.awaitEvent("app", "RolloutPreparing", second)
		n.mustStillRun("app", main)
		if got := n.autoUpdate(); got.State != "Failed" && got.State != "Updating" {
			t.Errorf("while the registry is away: %+v", got)
		}
		n.Kill()
		n.start()
		n.awaitRevisionHeld("app", "RolloutPreparing", second)
		n.mustStillRun("app", main)
		revive()
		n.cli(0, nil, "rollout", "retry", "app")
		n.awaitWord("two", catWord)
		if got := n.autoUpdate("app"); got.State != "Current" || got.Running != second {
			t.Errorf("after the update: %+v", got)
		}
	})
}
