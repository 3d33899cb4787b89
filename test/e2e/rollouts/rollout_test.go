package rollouts

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// rolloutPod is a revision of the pod p of TestRollback. Its container has the variable WORD.
type rolloutPod struct {
	word string
	// after is podstead.io/rollback-after. A revision that is to become Ready has minutes, since
	// the machine may be busy.
	after string
	// image, script and probe are busybox, a script that runs and no readiness probe if empty.
	image, script, probe string
}

func writeRevision(n *harness.Node, r rolloutPod) {
	n.T.Helper()
	if r.image == "" {
		r.image = testbed.BusyboxImage
	}
	if r.script == "" {
		r.script = "trap 'exit 0' TERM; while true; do sleep 0.1; done"
	}
	fields := ""
	if r.probe != "" {
		fields = fmt.Sprintf(", readinessProbe: {exec: {command: [sh, -c, %q]}, periodSeconds: 1, timeoutSeconds: 300}",
			r.probe)
	}
	n.WriteManifest("p.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: p
  annotations: {podstead.io/rollback-after: %s, podstead.io/max-container-restart-period: 1s}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 300
  volumes: [{name: out, hostPath: {path: %s, type: DirectoryOrCreate}}]
  containers:
  - {name: main, image: %s, command: [sh, -c, %q], env: [{name: WORD, value: %q}], volumeMounts: [{name: out, mountPath: /out}]%s}
`, r.after, n.OutDir(), r.image, r.script, r.word, fields))
}

// awaitRollout waits until the rollout of the pod p has the state and a message with the words.
func awaitRollout(n *harness.Node, state api.RolloutState, words ...string) api.Rollout {
	n.T.Helper()
	var found api.Rollout
	n.Await("the rollout is "+string(state), func() error {
		body, err := n.Get(n.T.Context(), "/podstead/v1/rollouts")
		if err != nil {
			return err
		}
		var list []api.Rollout
		if err := json.Unmarshal(body, &list); err != nil {
			return err
		}
		if len(list) != 1 || list[0].State != state {
			return fmt.Errorf("%s", body)
		}
		for _, w := range words {
			if !strings.Contains(list[0].Message, w) {
				return fmt.Errorf("no %q in %s", w, body)
			}
		}
		found = list[0]
		return nil
	})
	return found
}

// A revision whose image does not exist, that is never ready, or that crashes gives way to the
// last one that was ready, also if the daemon is killed meanwhile. Commands show that, and put
// any revision into effect. Two revisions never run at once, which n.running checks.
func TestRollback(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		good := rolloutPod{word: "one", after: "1h", probe: "true"}
		writeRevision(n, good)
		n.MustStart()
		one := n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		first := awaitRollout(n, "Stable").Revision

		// Preparing outlives the daemon, and touches nothing.
		writeRevision(n, rolloutPod{word: "missing", after: "1h", image: "docker.io/library/missing:1"})
		awaitRollout(n, "Preparing", "ErrImagePull")
		n.Restart()
		awaitRollout(n, "Preparing", "missing:1")
		n.MustStillRun("p", one)
		n.CLI(124, []string{"Preparing", "missing:1"}, "rollout", "status", "p", "--timeout", "1s")

		// Never ready. On a busy machine it runs for less than the test needs to see it.
		writeRevision(n, rolloutPod{word: "unready", after: "5s", probe: "false"})
		awaitRollout(n, "RolledBack", "it was not Ready within 5s")
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		n.AwaitEvent("p", "RolledBack", "it was not Ready within 5s")
		n.CLI(1, []string{"RolledBack", "not Ready within 5s"}, "rollout", "status", "p")
		n.CLI(0, []string{"rollout: default/" + n.PodName("p") + " RolledBack"}, "get", "pods")
		n.CLI(0, []string{"RolledBack"}, "describe", "pod", "p")

		// A crash loop, with the daemon killed when the revision runs and when it has failed.
		writeRevision(n, rolloutPod{word: "crash", after: "1h", script: "echo >> /out/crashes; exit 3"})
		n.Await("the revision has started", func() error {
			if n.Lines("crashes") == 0 {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		n.Restart()
		awaitRollout(n, "RolledBack", `container "main" ended`)
		n.Restart()
		awaitRollout(n, "RolledBack", `container "main" ended`)
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")
		crashes := n.Lines("crashes")

		// Tried again on request, and rolled back again.
		n.CLI(0, []string{"rollout status"}, "rollout", "retry", "p")
		n.Await("the revision is tried again", func() error {
			if n.Lines("crashes") == crashes {
				return fmt.Errorf("not yet")
			}
			return nil
		})
		awaitRollout(n, "RolledBack", `container "main" ended`)
		n.AwaitRevision("p", "one")
		n.AwaitReady("p")

		// A revision that works, and is undone.
		good.word = "two"
		writeRevision(n, good)
		n.AwaitRevision("p", "two")
		n.AwaitReady("p")
		awaitRollout(n, "Stable")
		n.CLI(0, []string{"successfully rolled out"}, "rollout", "status", "p")
		n.CLI(0, []string{"in effect, manifest, ready", first, "it was not Ready within 5s"}, "rollout", "history", "p")
		n.CLI(0, nil, "rollout", "undo", "p", "--to-revision", first)
		n.AwaitRevision("p", "one")
		awaitRollout(n, "Undone")
		n.AwaitReady("p")
		n.Restart()
		awaitRollout(n, "Undone")
		one = n.AwaitRevision("p", "one")
		n.MustStillRun("p", one)
		n.CLI(1, []string{"no such revision", "rollout history"}, "rollout", "undo", "p", "--to-revision", "ffffffffff")
		n.CLI(0, nil, "rollout", "retry", "p")
		n.AwaitRevision("p", "two")
		n.AwaitReady("p")
		awaitRollout(n, "Stable")
	})
}
