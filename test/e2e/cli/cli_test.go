package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

func TestGetPods(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		n.AwaitReady("p")
		out, errs, status := n.Podstead("get", "pods", "--api-socket", n.Socket())
		if status != 0 || !strings.Contains(out, n.PodName("p")) || !strings.Contains(out, "Running") {
			t.Errorf("get pods exited with %d:\n%s%s", status, out, errs)
		}
		for _, name := range []string{"p", n.PodName("p")} {
			out, errs, status = n.Podstead("get", "pods", name, "-o", "name", "--api-socket", n.Socket())
			if status != 0 || strings.TrimSpace(out) != "pod/"+n.PodName("p") {
				t.Errorf("get pods %s -o name exited with %d: %q %s", name, status, out, errs)
			}
		}
		out, errs, status = n.Podstead("get", "pods", "-o", "json", "--api-socket", n.Socket())
		var list v1.PodList
		if err := json.Unmarshal([]byte(out), &list); err != nil || status != 0 || len(list.Items) != 1 {
			t.Errorf("get pods -o json exited with %d (%v): %s%s", status, err, out, errs)
		}
		info, err := os.Stat(n.Socket())
		if err != nil || info.Mode().Perm() != 0o660 {
			t.Errorf("the socket's mode is %v (%v), want 0660", info.Mode(), err)
		}
	})
}

// The examples are valid. An invalid manifest is reported in one line with its position.
func TestValidate(t *testing.T) {
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd16))
	if out, errs, status := n.Podstead("validate", filepath.Join(testbed.SourceRoot(), "examples")); status != 0 {
		t.Errorf("validate examples exited with %d:\n%s%s", status, out, errs)
	}
	n.WriteManifest("bad.yaml", strings.Replace(harness.SleepPod("p", "one"), "image:", "imege:", 1))
	file := filepath.Join(n.Manifests, "bad.yaml")
	out, errs, status := n.Podstead("validate", file)
	if status != 1 || !strings.Contains(out+errs, file+":9: ") || !strings.Contains(out+errs, "image") {
		t.Errorf("validate exited with %d:\n%s%s", status, out, errs)
	}
}

// run --runonce starts each pod, prints a line for each, leaves them running and exits.
func TestRunOnce(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("a.yaml", harness.SleepPod("a", "one"))
		n.WriteManifest("b.yaml", harness.SleepPod("b", "one"))
		out, errs, status := n.Podstead(n.Flags("--runonce")...)
		if status != 0 || !strings.Contains(out, "default/a: Running") || !strings.Contains(out, "default/b: Running") {
			t.Fatalf("run --runonce exited with %d:\n%s%s", status, out, errs)
		}
		n.AwaitRunning("a")
		n.AwaitRunning("b")
		n.WriteManifest("b.yaml", strings.Replace(harness.SleepPod("b", "one"), testbed.BusyboxImage,
			"docker.io/library/none:1", 1))
		out, errs, status = n.Podstead(n.Flags("--runonce")...)
		if status != 1 || !strings.Contains(out, "default/b: failed: revision") {
			t.Fatalf("run --runonce with a pod that cannot start exited with %d:\n%s%s", status, out, errs)
		}
		n.AwaitRunning("a")
		n.WriteManifest("b.yaml", "kind: Pot\n")
		out, errs, status = n.Podstead(n.Flags("--runonce")...)
		if status != 1 || !strings.Contains(out, "fault: "+filepath.Join(n.Manifests, "b.yaml")+":1: ") {
			t.Fatalf("run --runonce with a broken manifest exited with %d:\n%s%s", status, out, errs)
		}
		n.AwaitRunning("a")
		out, errs, status = n.Podstead(n.Flags("--runonce", "--pod-manifest-path", n.Manifests+"/none")...)
		if status == 0 || !strings.Contains(errs, "--runonce: "+n.Manifests+"/none does not exist") {
			t.Fatalf("run --runonce without a manifest directory exited with %d:\n%s%s", status, out, errs)
		}
	})
}

// Invalid flags are reported immediately, with valid alternatives.
func TestStartupErrors(t *testing.T) {
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd16))
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--no-such-flag"}, "no-such-flag"},
		{[]string{"frobnicate"}, "frobnicate"},
		{[]string{"run", "--config", "/nowhere/config.yaml"}, "/nowhere/config.yaml"},
	} {
		out, errs, status := n.Podstead(c.args...)
		if status == 0 || !strings.Contains(errs, c.want) {
			t.Errorf("%v exited with %d:\n%s%s", c.args, status, out, errs)
		}
	}
	out, errs, status := n.Podstead("get", "pods", "--api-socket", "/nowhere/socket")
	if status == 0 || !strings.Contains(errs, "/nowhere/socket") {
		t.Errorf("get pods without a daemon exited with %d:\n%s%s", status, out, errs)
	}
	if out, _, status := n.Podstead("version"); status != 0 || out == "" {
		t.Errorf("version exited with %d: %s", status, out)
	}
}

// The examples run unchanged with the settings of a new installation.
func TestExamples(t *testing.T) {
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: they use ports of the host
			n := harness.NewNode(t, harness.SharedRuntime(t, kind))
			files, err := filepath.Glob(filepath.Join(testbed.SourceRoot(), "examples", "*.yaml"))
			if err != nil || len(files) < 3 {
				t.Fatalf("examples: %v, %v", files, err)
			}
			n.Args = []string{"--seccomp-default"}
			for _, f := range files {
				data, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				n.WriteManifest(filepath.Base(f), string(data))
			}
			n.MustStart()
			pods := map[string][]string{"names": {"stock", "shop"}, "ordered": {"db", "client"}, "rollback": {"careful"}}
			for _, f := range files {
				name := strings.TrimSuffix(filepath.Base(f), ".yaml")
				if pods[name] == nil {
					pods[name] = []string{name}
				}
				for _, pod := range pods[name] {
					n.AwaitReady(pod)
				}
			}
			n.AwaitPage(8080, "Hello from podstead")
			n.Await("node-info answers", func() error {
				page, err := harness.Fetch(8081)
				if err == nil && !strings.Contains(page, "PRETTY_NAME") {
					err = fmt.Errorf("it says %q", page)
				}
				return err
			})
			for _, f := range files {
				n.RemoveManifest(filepath.Base(f))
			}
			for _, f := range files {
				n.AwaitGone(strings.TrimSuffix(filepath.Base(f), ".yaml"))
			}
		})
	}
}
