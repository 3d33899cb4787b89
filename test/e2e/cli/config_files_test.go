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

// A daemon takes settings of both kinds of documents from a file and a drop-in file, flags
// override them, and check reports an error in a file that keeps the daemon from starting,
// which ends no pod.
func TestConfigurationFiles(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	dir := t.TempDir()
	file, dropIns := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "config.d")
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const kubelet, own = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n",
		"apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\n"
	write(file, kubelet+"maxPods: 7\npodPidsLimit: 99\nsystemReserved: {memory: 10Mi}\n---\n"+own+
		"nodeLabels: {place: file}\nlogFormat: json\n")
	dropIn := filepath.Join(dropIns, "role", "10-role.conf")
	write(dropIn, kubelet+"maxPods: 8\nsystemReserved: {pid: 100}\n---\n"+own+"nodeLabels: {role: web}\n")
	n.Args = append(n.Args, "--config", file, "--config-dir", dropIns, "--pod-max-pids", "55")
	n.WriteManifest("web.yaml", strings.Replace(harness.SleepPod("web", "one"), "spec:\n",
		"spec:\n  nodeSelector: {place: file, role: web}\n", 1))
	n.MustStart()
	web := n.AwaitRunning("web")
	shown := n.Configz()
	reserved, _ := shown["systemReserved"].(map[string]any)
	if shown["maxPods"] != 8.0 || shown["podPidsLimit"] != 55.0 || reserved["memory"] != "10Mi" ||
		reserved["pid"] != "100" {
		t.Errorf("configuration: %v", shown)
	}
	log, err := os.ReadFile(n.Log())
	if want := fmt.Sprintf(`"msg":"Configuration loaded","files":[%q,%q]`, file, dropIn); err != nil ||
		!strings.Contains(string(log), want) {
		t.Errorf("the log does not contain %s (%v)", want, err)
	}

	write(dropIn, kubelet+"maxPods: 8\nmaxPodz: 9\n")
	found := n.Check(1, "--config", file, "--config-dir", dropIns)
	fault := dropIn + ":4: maxPodz: unknown field; did you mean maxPods?"
	if f := found["configuration"]; f.Level != "fail" || f.Message != fault || f.Fix == "" {
		t.Errorf("check: %+v", f)
	}
	n.Kill()
	if out, errs, status := n.Podstead(n.Flags()...); status != 2 || !strings.Contains(errs, fault) {
		t.Errorf("run exited with %d: %s%s", status, out, errs)
	}
	n.MustStillRun("web", web)
	write(dropIn, kubelet+"maxPods: 9\n---\n"+own+"nodeLabels: {role: web}\n")
	n.MustStart()
	n.Await("the new settings are in force", func() error {
		if got := n.Configz()["maxPods"]; got != 9.0 {
			return fmt.Errorf("maxPods is %v", got)
		}
		return nil
	})
	n.MustStillRun("web", web)
}
