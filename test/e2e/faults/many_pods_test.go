package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// manyPods is how many pods TestManyPodsAtOnce runs; PODSTEAD_E2E_PODS overrides it.
func manyPods(t *testing.T) int {
	t.Helper()
	text := os.Getenv("PODSTEAD_E2E_PODS")
	if text == "" {
		return 40
	}
	count, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return count
}

// Many pods that are started, edited and removed at once all get there: no call to the runtime
// reaches its deadline because the others are in its way.
func TestManyPodsAtOnce(t *testing.T) {
	count := manyPods(t)
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		n.Args = []string{"--max-pods", strconv.Itoa(count)}
		manifest := func(word string) string {
			var all strings.Builder
			for i := range count {
				all.WriteString("---\n" + strings.Replace(harness.SleepPod(fmt.Sprintf("p%d", i), word), "spec:\n",
					"spec:\n  hostNetwork: true\n", 1))
			}
			return all.String()
		}
		n.WriteManifest("all.yaml", manifest("old"))
		n.MustStart()
		awaitMany(n, count, "old")
		n.WriteManifest("all.yaml", manifest("new"))
		awaitMany(n, count, "new")
		n.RemoveManifest("all.yaml")
		for left := count; left > 0; {
			left = max(left-20, 0)
			n.Await(fmt.Sprintf("at most %d pods are left", left), func() error {
				all, err := n.Runtime.CRI.Sandboxes(t.Context(), "", "")
				if err == nil && len(all) > left {
					err = fmt.Errorf("%d sandboxes", len(all))
				}
				return err
			}, 15*time.Minute)
		}
		for _, reason := range []string{"FailedKillPod", "FailedCreatePodSandBox", "Failed", "FailedSync"} {
			if faults := n.NodeEvents(reason); len(faults) > 0 {
				t.Errorf("%d events %s, the first is %q", len(faults), reason, faults[0])
			}
		}
	})
}

// awaitMany waits until all pods run with a word in their environment.
func awaitMany(n *harness.Node, count int, word string) {
	n.T.Helper()
	for want := 0; want < count; {
		want = min(want+20, count)
		n.Await(fmt.Sprintf("%d pods run with %q", want, word), func() error {
			body, err := n.Get(n.T.Context(), "/pods")
			if err != nil {
				return err
			}
			var pods v1.PodList
			if err := json.Unmarshal(body, &pods); err != nil {
				return err
			}
			run := 0
			for _, p := range pods.Items {
				if p.Status.Phase == v1.PodRunning && p.DeletionTimestamp == nil && p.Spec.Containers[0].Env[0].Value == word {
					run++
				}
			}
			if run < want {
				return fmt.Errorf("%d run", run)
			}
			return nil
		}, 15*time.Minute)
	}
}
