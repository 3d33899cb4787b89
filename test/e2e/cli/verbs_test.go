package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
)

// The podstead command alone shows the state of the node and the reasons.
func TestInspectionCommands(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("web.yaml", strings.Replace(harness.SleepPod("web", "one"), "name: web\n",
			"name: web\n  labels: {tier: front}\n", 1)+
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {a: one}\n"+
			"---\napiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: hunter2}\n")
		n.WriteManifest("bad.yaml", harness.ScriptPod("bad", "one", 1, "exit 3"))
		n.MustStart()
		n.AwaitReady("web")
		n.AwaitStatus("bad", "crashed", func(p v1.Pod) error {
			if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].State.Waiting == nil ||
				p.Status.ContainerStatuses[0].State.Waiting.Reason != "CrashLoopBackOff" {
				return fmt.Errorf("%+v", p.Status.ContainerStatuses)
			}
			return nil
		})
		web, file := n.PodName("web"), filepath.Join(n.Manifests, "web.yaml")
		// It may run at the moment.
		n.AwaitStatusLine(1, n.Name+", ready", "Runtime:", "Pressure:", n.Manifests, "1 ready, 1 failing", "CrashLoopBackOff")
		status, _, _ := n.Podstead("status", "--api-socket", n.Socket())
		if strings.Contains(status, "web  ") {
			t.Errorf("a ready pod is listed as not ready:\n%s", status)
		}
		for _, c := range []struct {
			args  string
			words []string
		}{
			{"get po,no,ns,cm,secrets", []string{"pod/" + web, "node/" + n.Name, "namespace/default", "configmap/conf",
				"secret/login", file, "password"}},
			{"get pods -l tier=front -o name", []string{"pod/" + web}},
			{"get pods --field-selector metadata.name=" + web + " --show-labels --no-headers", []string{"tier=front"}},
			{"get pod/web -o jsonpath={.status.phase}", []string{"Running"}},
			{"get pods --sort-by=.metadata.name -o custom-columns=N:.metadata.name,P:.status.phase", []string{"N ", "Running"}},
			{"get cm conf -o jsonpath={.data.a}", []string{"one"}},
			{"get nodes -o wide", []string{"KERNEL-VERSION", "containerd://"}},
			{"get images", []string{"busybox"}},
			{"get events --field-selector reason=Started web", []string{"Started", "pod/" + web}},
			{"events --for pod/web --types=Normal", []string{"Created", "Started"}},
			{"events --for node/" + n.Name, []string{"Starting"}},
			{"describe node", []string{n.Name, "Conditions:", "web", "Capacity"}},
			{"describe cm/conf", []string{file, "a: one"}},
			{"describe secret login", []string{file, "(not shown)"}},
			{"describe pods -l tier=front", []string{web, file, "Started"}},
			{"diff " + file, nil},
			{"validate " + n.Manifests, []string{"2 pods and 2 other objects in 2 files: valid"}},
			{"explain pod.spec.hostNetwork", []string{"supported"}},
		} {
			args := strings.Fields(c.args)
			n.CLI(0, c.words, args...)
		}
		n.CLI(1, []string{`did you mean "web"?`}, "get", "pod", "wbe")
		n.CLI(2, []string{"did you mean pods?"}, "get", "pots")
		n.CLI(2, []string{"unknown flag"}, "get", "pods", "--frobnicate")
		n.WriteManifest("web.yaml", strings.Replace(harness.SleepPod("web", "two"), "name: web\n",
			"name: web\n  labels: {tier: front}\n", 1))
		n.AwaitRevision("web", "two")
		n.WriteManifest("next.yaml", harness.SleepPod("web", "three"))
		n.CLI(1, []string{"-  labels:", "three", "+ "}, "diff", filepath.Join(n.Manifests, "next.yaml"))
		n.RemoveManifest("next.yaml")
		var list v1.PodList
		if err := json.Unmarshal([]byte(n.CLI(0, nil, "get", "pods", "-o", "json")), &list); err != nil ||
			len(list.Items) != 2 || list.Items[0].Kind != "Pod" {
			t.Errorf("get pods -o json: %v, %d pods", err, len(list.Items))
		}
		// A completion gives up after a second.
		n.Await("completion of logs w", func() error {
			if out, _, _ := n.Podstead("__complete", "logs", "--api-socket", n.Socket(), "w"); !strings.HasPrefix(out, "web\n") {
				return fmt.Errorf("it prints %q", out)
			}
			return nil
		})
	})
}

// watchPods starts get pods -w. read awaits a line with all words, and interrupt ends it with Ctrl-C.
func watchPods(t *testing.T, n *harness.Node, args ...string) (read func(words ...string), interrupt func()) {
	t.Helper()
	cmd := n.Command(append([]string{"get", "pods", "-w", "--api-socket", n.Socket()}, args...)...)
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = w.Close() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			lines <- s.Text()
		}
	}()
	read = func(words ...string) {
		t.Helper()
		for deadline := time.After(3 * time.Minute); ; {
			select {
			case line := <-lines:
				if containsAll(line, words) {
					return
				}
			case <-deadline:
				t.Fatalf("the watch has no line with %q", words)
			}
		}
	}
	interrupt = func() {
		t.Helper()
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("after Ctrl-C the watch exited with %v", err)
		}
	}
	return read, interrupt
}

// A watch continues across a restart of the daemon and reports the changes made meanwhile.
func TestWatchAcrossRestart(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.WriteManifest("p.yaml", harness.SleepPod("p", "one"))
		n.MustStart()
		n.AwaitReady("p")
		read, interrupt := watchPods(t, n, "--output-watch-events")
		read("ADDED", n.PodName("p"), "Running")
		n.Kill()
		read("not responding")
		n.WriteManifest("q.yaml", harness.SleepPod("q", "one"))
		n.MustStart()
		read("responding again")
		read(n.PodName("q"), "1/1", "Running")
		n.RemoveManifest("p.yaml")
		read("DELETED", n.PodName("p"))
		interrupt()
		n.Kill()
		n.CLI(3, []string{n.Socket(), "podstead run"}, "get", "pods")
		n.CLI(3, nil, "wait", "q", "--timeout=1s")
		n.MustStart()
	})
}

func containsAll(line string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(line, w) {
			return false
		}
	}
	return true
}
