package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// wordPod is sleepPod with another image, and an annotation, empty for none.
func wordPod(name, word, image, annotation string) string {
	manifest := strings.Replace(sleepPod(name, word), testbed.BusyboxImage, image, 1)
	if annotation != "" {
		manifest = strings.Replace(manifest, "spec:\n", "  annotations: {"+annotation+"}\nspec:\n", 1)
	}
	return manifest
}

// awaitRevisionHeld waits until the status of a pod says that the newest revision of its
// manifest is not in effect, with these words.
func (n *node) awaitRevisionHeld(name string, words ...string) {
	n.t.Helper()
	n.awaitStatus(name, fmt.Sprint("podstead.io/RevisionHeld with ", words), func(p v1.Pod) error {
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
	onEachRuntime(t, func(t *testing.T, n *node) {
		image, _ := n.push("library/pull-first-" + n.Name)
		n.writeManifest("p.yaml", wordPod("p", "one", image, ""))
		n.start()
		first := n.awaitRevision("p", "one")
		n.awaitReady("p")
		n.writeManifest("p.yaml", wordPod("p", "two", image+"-typo", ""))
		n.awaitRevisionHeld("p", "RolloutPreparing", image+"-typo", "not found")
		n.awaitEvent("p", "RolloutPreparing", image+"-typo")
		n.mustStillRun("p", first)
		if out := n.cli(0, nil, "describe", "pod", "p"); !regexp.MustCompile(`(?m)^Started In: +\d+\.\d\d s: sandbox \d+\.\d\d, .*start \d+\.\d\d$`).MatchString(out) {
			t.Errorf("describe does not say how long the pod took to start:\n%s", out)
		}
		n.Kill()
		n.start()
		n.awaitRevisionHeld("p", "RolloutPreparing", image+"-typo")
		n.mustStillRun("p", first)
		if out := n.cli(0, []string{"RevisionHeld", image + "-typo"}, "describe", "pod", "p"); strings.Contains(out, "Started In:") {
			t.Errorf("describe says how long a pod took to start that an earlier daemon started:\n%s", out)
		}
		n.writeManifest("p.yaml", wordPod("p", "three", image, ""))
		n.awaitRevision("p", "three")
		n.awaitExactly(1)
		// Nothing of what was not prepared ever started.
		sandboxes, err := n.sandboxes("p")
		if err != nil || len(sandboxes) != 1 {
			t.Errorf("%d sandboxes, %v", len(sandboxes), err)
		}
	})
}

// With podstead.io/replace: kubelet the running revision ends before the image of the next
// one is there.
func TestReplaceAsTheKubelet(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		n.writeManifest("p.yaml", wordPod("p", "one", testbed.BusyboxImage, ""))
		n.start()
		n.awaitRevision("p", "one")
		n.awaitReady("p")
		n.writeManifest("p.yaml", wordPod("p", "two", testbed.BusyboxImage+"-typo", "podstead.io/replace: kubelet"))
		n.await("the first revision ends without the image of the second", func() error {
			p, err := n.pod("p")
			if err != nil {
				return err
			}
			for _, c := range p.Status.ContainerStatuses {
				if w := c.State.Waiting; w != nil && strings.Contains(w.Reason, "ImagePull") && strings.HasSuffix(c.Image, "-typo") {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.ContainerStatuses)
		})
		// It is in effect, and no rollout that has succeeded.
		n.cli(124, []string{"is in effect: ", "ImagePull"}, "rollout", "status", "p", "--timeout", "1s")
		n.cli(0, []string{"is in effect, but not ready: ", "ImagePull"}, "rollout", "status", "p", "--watch=false")
	})
}

// While an image is pulled, the old revision runs, whatever happens to the daemon; a
// further edit ends the pull, editing back leaves the container alone, and removing the
// manifest ends everything.
func TestPullFirst(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		repository := "library/slow-first-" + n.Name
		slow, _ := n.push(repository)
		release := registry.Hold(repository)
		defer func() { release() }()
		one, two := wordPod("p", "one", testbed.BusyboxImage, ""), wordPod("p", "two", slow, "")
		n.writeManifest("p.yaml", one)
		n.start()
		first := n.awaitRevision("p", "one")
		n.awaitReady("p")

		// Edited back.
		n.writeManifest("p.yaml", two)
		n.awaitRevisionHeld("p", "Pulling image", slow)
		n.writeManifest("p.yaml", one)
		n.await("the pull is cancelled", func() error {
			if w := registry.Waiting(repository); w > 0 {
				return fmt.Errorf("%d requests wait", w)
			}
			return nil
		})
		n.mustStillRun("p", first)

		// Superseded.
		n.writeManifest("p.yaml", two)
		n.awaitRevisionHeld("p", "Pulling image", slow)
		n.writeManifest("p.yaml", wordPod("p", "three", testbed.BusyboxImage, ""))
		third := n.awaitRevision("p", "three")
		n.awaitReady("p")

		// The daemon is killed during the pull.
		n.writeManifest("p.yaml", two)
		n.awaitRevisionHeld("p", "Pulling image", slow)
		n.Kill()
		n.start()
		n.awaitRevisionHeld("p", "Pulling image", slow)
		n.mustStillRun("p", third)
		release()
		n.awaitRevision("p", "two")
		n.awaitExactly(1)

		// Removed during the pull.
		n.awaitReady("p")
		other, _ := n.push(repository + "-c")
		release2 := registry.Hold(repository + "-c")
		defer release2()
		n.writeManifest("p.yaml", wordPod("p", "four", other, ""))
		n.awaitRevisionHeld("p", "Pulling image", other)
		n.removeManifest("p.yaml")
		n.awaitGone("p")
		n.awaitExactly(0)
	})
}

// A revision that does not become Ready is rolled back to the last one that did, and not
// tried again by a daemon that was killed.
func TestRollbackAfter(t *testing.T) {
	onEachRuntime(t, func(t *testing.T, n *node) {
		probed := func(word, after string) string {
			return wordPod("p", word, testbed.BusyboxImage, "podstead.io/rollback-after: "+after) +
				"      readinessProbe: {exec: {command: [sh, -c, \"test $WORD != bad\"]}, periodSeconds: 1, timeoutSeconds: 60}\n"
		}
		n.writeManifest("p.yaml", probed("good", "20m"))
		n.start()
		n.awaitRevision("p", "good")
		n.awaitReady("p")
		n.writeManifest("p.yaml", probed("bad", "3s"))
		n.awaitRevisionHeld("p", "RolledBack", "was rolled back", "not Ready within 3s")
		back := n.awaitRevision("p", "good")
		n.awaitReady("p")
		n.awaitEvent("p", "RolledBack", "not Ready within 3s")
		n.Kill()
		n.start()
		n.awaitRevisionHeld("p", "RolledBack")
		n.mustStillRun("p", back)
		n.writeManifest("p.yaml", probed("better", "20m"))
		n.awaitRevision("p", "better")
		n.awaitReady("p")
		n.awaitExactly(1)
	})
}
