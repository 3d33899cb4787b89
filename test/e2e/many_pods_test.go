package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
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
	onEachPrivateRuntime(t, func(t *testing.T, n *node) {
		n.Args = []string{"--max-pods", strconv.Itoa(count)}
		manifest := func(word string) string {
			var all strings.Builder
			for i := range count {
				all.WriteString("---\n" + strings.Replace(sleepPod(fmt.Sprintf("p%d", i), word), "spec:\n", "spec:\n  hostNetwork: true\n", 1))
			}
			return all.String()
		}
		n.writeManifest("all.yaml", manifest("old"))
		n.start()
		n.awaitMany(count, "old")
		n.writeManifest("all.yaml", manifest("new"))
		n.awaitMany(count, "new")
		n.removeManifest("all.yaml")
		for left := count; left > 0; {
			left = max(left-20, 0)
			n.await(fmt.Sprintf("at most %d pods are left", left), func() error {
				all, err := n.rt.CRI.Sandboxes(t.Context(), "", "")
				if err == nil && len(all) > left {
					err = fmt.Errorf("%d sandboxes", len(all))
				}
				return err
			}, 15*time.Minute)
		}
		for _, reason := range []string{"FailedKillPod", "FailedCreatePodSandBox", "Failed", "FailedSync"} {
			if faults := n.nodeEvents(reason); len(faults) > 0 {
				t.Errorf("%d events %s, the first is %q", len(faults), reason, faults[0])
			}
		}
	})
}

// awaitMany waits until all pods run with a word in their environment.
func (n *node) awaitMany(count int, word string) {
	n.t.Helper()
	for want := 0; want < count; {
		want = min(want+20, count)
		n.await(fmt.Sprintf("%d pods run with %q", want, word), func() error {
			body, err := n.Get(n.t.Context(), "/pods")
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
