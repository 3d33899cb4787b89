package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A user runs, changes and ends a pod without an editor. What the pod prints shows which
// manifest runs.
func TestApplyAndDelete(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		input := filepath.Join(t.TempDir(), "web.yaml")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		object := func(word string) string {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {word: " + word + "}\n"
		}
		pod := func(name, word string) string {
			return strings.Replace(harness.ScriptPod(name, word, 1,
				"echo $(cat /site/word); trap 'exit 0' TERM; sleep 100000 & wait"),
				"      image: ", "      volumeMounts: [{name: site, mountPath: /site}]\n      image: ", 1) +
				"  volumes: [{name: site, configMap: {name: site}}]\n"
		}
		file := filepath.Join(n.Manifests, "web.yaml")
		printed := func(name, word string) {
			t.Helper()
			n.Await(name+" has printed "+word, func() error {
				out, _, _ := n.Podstead("logs", name, "--api-socket", n.Socket())
				if !strings.Contains(out, word) {
					return fmt.Errorf("the log is %q", out)
				}
				return nil
			})
		}
		write("# The site\n" + object("red") + "---\n# Its server\n" + pod("web", "one") + "---\n" +
			harness.SleepPod("other", "x"))
		n.CLI(1, []string{input, "imge"}, "apply", "-f", badCopy(t, input))
		n.CLI(0, []string{"(dry run)", "+kind: Pod"}, "apply", "-f", input, "--dry-run=client")
		if _, err := os.Stat(file); err == nil {
			t.Error("a dry run or an invalid manifest was written")
		}
		n.CLI(0, []string{"pod/web created in " + file, n.PodName("web") + " is running"}, "apply", "-f", input, "--wait",
			"--timeout=10m")
		printed("web", "red")
		other := n.AwaitRunning("other")
		// Only the pod that changed is replaced.
		write(strings.Replace(pod("web", "two"), "name: web\n", "name: web\n  labels: {a: b}\n", 1))
		n.CLI(0, []string{"-", "+  labels: {a: b}", "pod/web configured in " + file}, "apply", "-f", input, "--wait",
			"--timeout=10m")
		if p, err := n.Pod("web"); err != nil || p.Labels["a"] != "b" {
			t.Errorf("the pod runs %v, %v", p.Labels, err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), "# The site\n") ||
			!strings.Contains(string(text), "# Its server\n") {
			t.Errorf("comments are lost: %v\n%s", err, text)
		}
		write(object("blue"))
		n.CLI(0, []string{"configmap/site configured in " + file}, "apply", "-f", input)
		n.AwaitExec(n.AwaitRunning("web"), "blue", "cat", "/site/word")
		n.CLI(0, []string{"pod/web deleted in " + file, n.PodName("web") + " deleted"}, "delete", "web", "--wait",
			"--timeout=10m")
		n.AwaitGone("web")
		if now := n.AwaitRunning("other"); now.ID != other.ID {
			t.Error("a pod that did not change was replaced")
		}
		n.CLI(0, []string{"pod/other deleted", "configmap/site deleted"}, "delete", "pod/other", "cm/site")
		n.AwaitGone("other")
		if all, err := os.ReadDir(n.Manifests); err != nil || len(all) != 0 {
			t.Errorf("left: %v, %v", all, err)
		}
		if faults, _, _ := n.Podstead("status", "--api-socket", n.Socket()); strings.Contains(faults, "fault:") {
			t.Errorf("status:\n%s", faults)
		}
	})
}

// badCopy returns a copy of a manifest with a typing error.
func badCopy(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := path + "-bad.yaml"
	if err := os.WriteFile(bad, []byte(strings.Replace(string(text), "image: "+testbed.BusyboxImage, "imge: x", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	return bad
}
