package upgrade

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// otherDefaults builds the product like a later version with changed defaulting: the default
// grace period is 31 seconds. The source tree is not changed.
func otherDefaults(t *testing.T) string {
	t.Helper()
	const was, is = "&spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds",
		"&spec.TerminationGracePeriodSeconds, 31"
	file := filepath.Join(testbed.SourceRoot(), "manifest", "validation", "defaults.go")
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(source), was) {
		t.Fatalf("%s does not contain %q any more: fix this test", file, was)
	}
	dir := t.TempDir()
	changed := filepath.Join(dir, "defaults.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	harness.WriteAll(t, dir, map[string]string{
		"defaults.go":  strings.Replace(string(source), was, is, 1),
		"overlay.json": string(overlay),
	})
	binary := filepath.Join(dir, "podstead")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, "./cmd/podstead")
	build.Dir = testbed.SourceRoot()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// An upgrade with changed defaulting restarts nothing: an unchanged document keeps its pod.
func TestUpgradeWithOtherDefaults(t *testing.T) {
	binary := otherDefaults(t)
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		manifest := strings.Replace(harness.SleepPod("p", "one"), "  terminationGracePeriodSeconds: 10\n", "", 1)
		n.WriteManifest("p.yaml", manifest)
		n.MustStart()
		first := n.AwaitRunning("p")
		before := n.AwaitReady("p")

		n.Binary = binary
		n.Restart()
		after := n.AwaitReady("p")
		n.MustStillRun("p", first)
		if before.UID != after.UID {
			t.Errorf("UID went from %s to %s", before.UID, after.UID)
		}
		n.WriteManifest("q.yaml", strings.Replace(manifest, "name: p", "name: q", 1))
		q := n.AwaitReady("q")
		if got := *q.Spec.TerminationGracePeriodSeconds; got != 31 {
			t.Fatalf("a new pod has a grace period of %d s: this is not the later version", got)
		}
		n.WriteManifest("p.yaml", "# touched\n"+manifest)
		n.Restart()
		n.AwaitReady("p")
		n.MustStillRun("p", first)
		n.AwaitExactly(2)
	})
}
