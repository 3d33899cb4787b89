package rollouts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// wordPod is SleepPod with another image, and an annotation, empty for none.
func wordPod(name, word, image, annotation string) string {
	manifest := strings.Replace(harness.SleepPod(name, word), testbed.BusyboxImage, image, 1)
	if annotation != "" {
		manifest = strings.Replace(manifest, "spec:\n", "  annotations: {"+annotation+"}\nspec:\n", 1)
	}
	return manifest
}

// awaitRevisionHeld waits until the status of a pod specifies that the newest revision of its
// manifest is not in effect, with these words.
func awaitRevisionHeld(n *harness.Node, name string, words ...string) {
	n.T.Helper()
	n.AwaitStatus(name, fmt.Sprint("podstead.io/RevisionHeld with ", words), func(p v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type != "podstead.io/RevisionHeld" || c.Status != v1.ConditionTrue {
				continue
			}
			for _, word := range words {
				if !strings.Contains(c.Reason+": "+c.Message, word) {
					return fmt.Errorf("%q is not in %s: %s", word, c.Reason, c.Message)
				}
			}
			return nil
		}
		return fmt.Errorf("conditions: %v", p.Status.Conditions)
	})
}

// A typo in the tag leaves the container running that runs, over a killed daemon as well;
// the correction replaces it.
func TestTypoInTheTag(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		image, _ := n.Push("library/pull-first-" + n.Name)
		n.WriteManifest("p.yaml", wordPod("p", "one", image, ""))
		n.MustStart()
		first := n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		n.WriteManifest("p.yaml", wordPod("p", "two", image+"-typo", ""))
		awaitRevisionHeld(n, "p", "RolloutPreparing", image+"-typo", "not found")
		n.AwaitEvent("p", "RolloutPreparing", image+"-typo")
		n.MustStillRun("p", first)
		if out := n.CLI(0, nil, "describe", "pod",
			"p"); !regexp.MustCompile(`(?m)^Started In: +\d+\.\d\d s: sandbox \d+\.\d\d, .*start \d+\.\d\d$`).MatchString(out) {
			t.Errorf("describe does not say how long the pod took to start:\n%s", out)
		}
		n.Kill()
		n.MustStart()
		awaitRevisionHeld(n, "p", "RolloutPreparing", image+"-typo")
		n.MustStillRun("p", first)
		if out := n.CLI(0, []string{"RevisionHeld", image + "-typo"}, "describe", "pod", "p"); strings.Contains(out,
			"Started In:") {
			t.Errorf("describe says how long a pod took to start that an earlier daemon started:\n%s", out)
		}
		n.WriteManifest("p.yaml", wordPod("p", "three", image, ""))
		n.AwaitRevision("p", "three")
		n.AwaitExactly(1)
		// Nothing of what was not prepared ever started.
		sandboxes, err := n.Sandboxes("p")
		if err != nil || len(sandboxes) != 1 {
			t.Errorf("%d sandboxes, %v", len(sandboxes), err)
		}
	})
}

// With podstead.io/replace: kubelet the running revision ends before the image of the next
// one is there.
func TestReplaceAsTheKubelet(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", wordPod("p", "one", testbed.BusyboxImage, ""))
		n.MustStart()
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		n.WriteManifest("p.yaml", wordPod("p", "two", testbed.BusyboxImage+"-typo", "podstead.io/replace: kubelet"))
		n.Await("the first revision ends without the image of the second", func() error {
			p, err := n.Pod("p")
			if err != nil {
				return err
			}
			for _, c := range p.Status.ContainerStatuses {
				if w := c.State.Waiting; w != nil && strings.Contains(w.Reason, "ImagePull") &&
					strings.HasSuffix(c.Image, "-typo") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		// It is in effect, and no rollout that has succeeded.
		n.CLI(124, []string{"is in effect: ", "ImagePull"}, "rollout", "status", "p", "--timeout", "1s")
		n.CLI(0, []string{"is in effect, but not ready: ", "ImagePull"}, "rollout", "status", "p", "--watch=false")
	})
}

// While an image is pulled, the old revision runs, whatever happens to the daemon; a
// further edit ends the pull, editing back leaves the container alone, and removing the
// manifest ends everything.
func TestPullFirst(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository := "library/slow-first-" + n.Name
		slow, _ := n.Push(repository)
		release := harness.Registry.Hold(repository)
		defer func() { release() }()
		one, two := wordPod("p", "one", testbed.BusyboxImage, ""), wordPod("p", "two", slow, "")
		n.WriteManifest("p.yaml", one)
		n.MustStart()
		first := n.AwaitRevision("p", "one")
		n.AwaitReady("p")

		// Edited back.
		n.WriteManifest("p.yaml", two)
		awaitRevisionHeld(n, "p", "Pulling image", slow)
		n.WriteManifest("p.yaml", one)
		n.Await("the pull is cancelled", func() error {
			if w := harness.Registry.Waiting(repository); w > 0 {
				return fmt.Errorf("%d requests wait", w)
			}
			return nil
		})
		n.MustStillRun("p", first)

		// Superseded.
		n.WriteManifest("p.yaml", two)
		awaitRevisionHeld(n, "p", "Pulling image", slow)
		n.WriteManifest("p.yaml", wordPod("p", "three", testbed.BusyboxImage, ""))
		third := n.AwaitRevision("p", "three")
		n.AwaitReady("p")

		// The daemon is killed during the pull.
		n.WriteManifest("p.yaml", two)
		awaitRevisionHeld(n, "p", "Pulling image", slow)
		n.Kill()
		n.MustStart()
		awaitRevisionHeld(n, "p", "Pulling image", slow)
		n.MustStillRun("p", third)
		release()
		n.AwaitRevision("p", "two")
		n.AwaitExactly(1)

		// Removed during the pull.
		n.AwaitReady("p")
		other, _ := n.Push(repository + "-c")
		release2 := harness.Registry.Hold(repository + "-c")
		defer release2()
		n.WriteManifest("p.yaml", wordPod("p", "four", other, ""))
		awaitRevisionHeld(n, "p", "Pulling image", other)
		n.RemoveManifest("p.yaml")
		n.AwaitGone("p")
		n.AwaitExactly(0)
	})
}

// A revision that does not become Ready is rolled back to the last one that did, and not
// tried again by a daemon that was killed.
func TestRollbackAfter(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		probed := func(word, after string) string {
			return wordPod("p", word, testbed.BusyboxImage, "podstead.io/rollback-after: "+after) +
				"      readinessProbe: {exec: {command: [sh, -c, \"test $WORD != bad\"]}, periodSeconds: 1, timeoutSeconds: 60}\n"
		}
		n.WriteManifest("p.yaml", probed("good", "20m"))
		n.MustStart()
		n.AwaitRevision("p", "good")
		n.AwaitReady("p")
		n.WriteManifest("p.yaml", probed("bad", "3s"))
		awaitRevisionHeld(n, "p", "RolledBack", "was rolled back", "not Ready within 3s")
		back := n.AwaitRevision("p", "good")
		n.AwaitReady("p")
		n.AwaitEvent("p", "RolledBack", "not Ready within 3s")
		n.Kill()
		n.MustStart()
		awaitRevisionHeld(n, "p", "RolledBack")
		n.MustStillRun("p", back)
		n.WriteManifest("p.yaml", probed("better", "20m"))
		n.AwaitRevision("p", "better")
		n.AwaitReady("p")
		n.AwaitExactly(1)
	})
}
