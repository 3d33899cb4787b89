package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

func ready(p v1.Pod) v1.Pod {
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	return p
}

func pulling() v1.Pod {
	return pod("web", func(p *v1.Pod) {
		p.Status.Phase = v1.PodPending
		p.Spec.Containers[0].Image = "busybox:9"
		p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "ContainerCreating", ""), running("b")}
	})
}

// What holds already is told at once; what does not ends with 124 and says why.
func TestWait(t *testing.T) {
	done := pod("job", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	failed := pod("lost", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
	web := ready(samples()[0])
	web.Name, web.Annotations[podinfo.AnnotationHash] = "up-n1", "abc"
	d := newFakeDaemon(t, web, pulling(), done, failed).start()
	for _, c := range []struct {
		args      string
		code      int
		out, said string
	}{
		{"up", 0, "pod/up-n1 is ready\n", ""},
		{"pod up --for=ready", 0, "pod/up-n1 is ready\n", ""},
		{"pod/up --for=condition=Ready", 0, "pod/up-n1 has condition Ready=True\n", ""},
		{"up --for=condition=ready=false", 124, "", "has condition Ready=True"},
		{"up --for=jsonpath={.status.phase}=Running", 0, "pod/up-n1 has {.status.phase}=Running\n", ""},
		{"up --for=jsonpath=.status.phase=Failed", 124, "", "has .status.phase=Running"},
		{"up --for=jsonpath=.status.podIP", 0, "pod/up-n1 has .status.podIP\n", ""},
		{"nosuch --for=delete", 0, "pod/nosuch is gone\n", ""},
		{"up --for=delete", 124, "", "pod/up-n1 is Running, 2/2 ready"},
		{"up --for=revision=abc", 0, "pod/up-n1 runs this revision\n", ""},
		{"up --for=revision=abd", 124, "", "is of another revision"},
		{"web", 124, "", "pod/web-n1 is ContainerCreating, 1/2 ready, container a with image busybox:9"},
		{"web up", 124, "pod/up-n1 is ready\n", "not within 0s: pod/web-n1"},
		{"nosuch", 124, "", "pod/nosuch is not there yet"},
		{"job", 1, "", "will not be ready"},
		{"lost", 1, "", "podstead describe pod lost"},
		{"node/n1 --for=condition=Ready", 0, "node/n1 has condition Ready=True\n", ""},
		{"nodes --all", 0, "node/n1 is ready\n", ""},
		{"pods -l app=none", 1, "", "no pods"},
		{"", 2, "", "nothing to wait for"},
		{"up --for=shiny", 2, "", "must be ready"},
		{"images x", 2, "", "cannot be waited for"},
		{"pod/up node/n1", 2, "", "only one type"},
		{"up -f x", 2, "", "--for=revision"},
	} {
		out, errs, err := execute(t, "", append([]string{"wait", "--timeout=0", "--api-socket", d.socket}, strings.Fields(c.args)...)...)
		if err != nil {
			errs += err.Error()
		}
		if Code(err) != c.code || out != c.out || !strings.Contains(errs, c.said) {
			t.Errorf("wait %s: %d %q %q, want %d %q %q", c.args, Code(err), out, errs, c.code, c.out, c.said)
		}
	}
}

func TestWaitTellsProgress(t *testing.T) {
	d := newFakeDaemon(t).start()
	w := watchLines(t, "wait", "web", "--for=ready", "--api-socket", d.socket)
	w.want("pod/web is not there yet")
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{pulling()} })
	w.want("ContainerCreating", "busybox:9")
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{ready(samples()[0])} })
	w.want("pod/web-n1 is ready")
	if err := w.end(); err != nil {
		t.Error(err)
	}
	w = watchLines(t, "wait", "other", "--for=ready", "--api-socket", d.socket)
	w.want("not there yet")
	if err := w.end(); Code(err) != ExitInterrupted || !Silent(err) {
		t.Errorf("Ctrl-C: %v", err)
	}
}

// A revision is what the file says now, whatever runs.
func TestWaitForARevision(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(text string) *v1.Pod {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		content, faults := manifest.NewLoader("n1", manifest.ModeStrict).Load(manifest.LoadRequest{Source: manifest.SourceFile, Data: []byte(text)})
		if faults.Fatal() {
			return nil
		}
		return content.Documents[0].Pod
	}
	loaded := func(p *v1.Pod) v1.Pod {
		n := ready(*p)
		now := metav1.Now()
		n.Status.Phase, n.Status.StartTime = v1.PodRunning, &now
		return n
	}
	old := loaded(write(good))
	d := newFakeDaemon(t, old)
	d.manifests = `[{"source":"file","location":"x","units":[{"name":"` + file + `","pods":["default/web"]}]}]`
	d.start()
	run := func(args ...string) (string, error) {
		out, errs, err := execute(t, "", append([]string{"wait", "--for=revision", "--timeout=0", "--api-socket", d.socket}, args...)...)
		return out + errs, err
	}
	if out, err := run("web"); err != nil || out != "pod/web-n1 runs what its manifest says\n" {
		t.Errorf("%v %s", err, out)
	}
	next := write(strings.Replace(good, "b:1", "b:2", 1))
	if out, err := run("web"); Code(err) != ExitTimeout || !strings.Contains(out, "another revision") {
		t.Errorf("an edit that does not run yet: %v %s", err, out)
	}
	w := watchLines(t, "wait", "--for=revision", "-f", file, "--api-socket", d.socket)
	w.want("another revision")
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{loaded(next)} })
	w.want("is not there yet") // between the two
	w.want("runs what its manifest says")
	if err := w.end(); err != nil {
		t.Error(err)
	}
	write(strings.Replace(good, "image", "imge", 1))
	if out, err := run("web"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "image") || !strings.Contains(err.Error(), file) {
		t.Errorf("a faulty edit: %v %s", err, out)
	}
	if out, err := run("nosuch"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "-f FILE") {
		t.Errorf("an unknown pod: %v %s", err, out)
	}
}

func TestRestart(t *testing.T) {
	before := ready(samples()[0])
	before.Status.ContainerStatuses[0].ContainerID, before.Status.ContainerStatuses[1].ContainerID = "x://1", "x://2"
	d := newFakeDaemon(t, before)
	asked := make(chan string, 9)
	d.more["POST /podstead/v1/namespaces/{namespace}/pods/{pod}/restart"] = func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("pod") == "crash-n1" {
			http.Error(w, "cannot run pod crash-n1 again: it has ended", http.StatusConflict)
			return
		}
		asked <- r.PathValue("namespace") + "/" + r.PathValue("pod")
		_, _ = w.Write([]byte(`{"name":"` + r.PathValue("pod") + `"}`))
	}
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods, samples()[1]) })
	d.start()
	for _, args := range []string{"web", "pod web", "pod/web-n1"} {
		out, errs, err := execute(t, "", append([]string{"restart", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if err != nil || errs != "" || out != "pod/web-n1 restarts\n" || <-asked != "default/web-n1" {
			t.Errorf("restart %s: %v %q %q", args, err, out, errs)
		}
	}
	for args, want := range map[string]string{"crash": "it has ended", "web nosuch": `no pod "nosuch"`, "pod": "no pod is named"} {
		_, _, err := execute(t, "", append([]string{"restart", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) || len(asked) != 0 {
			t.Errorf("restart %s: %v", args, err)
		}
	}
	w := watchLines(t, "restart", "web", "--wait", "--api-socket", d.socket)
	w.want("pod/web-n1 restarts")
	w.want("pod/web-n1 ends")
	d.change(func(pods []v1.Pod) []v1.Pod {
		pods[0].Status.ContainerStatuses[0].ContainerID, pods[0].Status.ContainerStatuses[1].ContainerID = "x://3", "x://4"
		return pods
	})
	w.want("pod/web-n1 runs again")
	if err := w.end(); err != nil {
		t.Error(err)
	}
}
