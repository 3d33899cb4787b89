package rollouts

import (
	"strings"
	"testing"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A change whose image is still pulled is dropped by rollout undo: what runs stays, over a killed daemon as
// well, and the revision before it is not started. The history shows the change until then.
func TestUndoDuringAPull(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		repository := "library/undo-" + n.Name
		slow, _ := n.Push(repository)
		release := harness.Registry.Hold(repository)
		defer func() { release() }()
		n.WriteManifest("p.yaml", wordPod("p", "one", testbed.BusyboxImage, ""))
		n.MustStart()
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		n.WriteManifest("p.yaml", wordPod("p", "two", testbed.BusyboxImage, ""))
		two := n.AwaitRevision("p", "two")
		n.AwaitReady("p")
		awaitRollout(n, api.RolloutStable)

		n.WriteManifest("p.yaml", wordPod("p", "three", slow, ""))
		awaitRollout(n, api.RolloutPreparing, "Pulling image")
		n.CLI(0, []string{"manifest, preparing", slow, "in effect, ready"}, "rollout", "history", "p")
		n.CLI(0, []string{"Undone"}, "rollout", "undo", "p")
		awaitRollout(n, api.RolloutUndone)
		if out := n.CLI(0, []string{"in effect, ready"}, "rollout", "history", "p"); strings.Contains(out, slow) {
			t.Errorf("the history has the change that was dropped:\n%s", out)
		}
		release()
		n.Kill()
		n.MustStart()
		awaitRollout(n, api.RolloutUndone)
		n.MustStillRun("p", two)

		n.CLI(0, nil, "rollout", "retry", "p")
		n.AwaitRevision("p", "three")
		n.AwaitReady("p")
		awaitRollout(n, api.RolloutStable)

		// A change that cannot be prepared, and an undo to an older revision than the one that runs.
		history := n.CLI(0, nil, "rollout", "history", "p")
		lines := strings.Split(strings.TrimSpace(history), "\n")
		oldest := strings.Fields(lines[len(lines)-1])[0]
		n.WriteManifest("p.yaml", wordPod("p", "four", slow+"-typo", ""))
		awaitRollout(n, api.RolloutPreparing, "ErrImagePull")
		n.CLI(0, []string{"manifest, failed", "not found"}, "rollout", "history", "p")
		n.CLI(0, nil, "rollout", "undo", "p", "--to-revision", oldest)
		n.AwaitRevision("p", "one")
		awaitRollout(n, api.RolloutUndone)
	})
}
