package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/api"
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

// A condition that is met is reported at once; otherwise the exit code is 124 and the message
// reports why.
func TestWait(t *testing.T) {
	done := pod("job", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded })
	failed := pod("lost", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
	held := pulling()
	held.Name, held.Status.Message = "held-n1", "depends on pod default/db, which no manifest declares"
	web := ready(samples()[0])
	web.Name, web.Annotations[podinfo.AnnotationHash] = "up-n1", "abc"
	d := newFakeDaemon(t, web, pulling(), held, done, failed).start()
	for _, c := range []struct {
		args         string
		code         int
		out, message string
	}{
		{"up", 0, "pod/up-n1 is ready\n", ""},
		{"pod up --for=ready", 0, "pod/up-n1 is ready\n", ""},
		{"pod/up --for=condition=Ready", 0, "pod/up-n1 has condition Ready=True\n", ""},
		{"up --for=condition=ready=false", 124, "", "condition Ready=True"},
		{"up --for=jsonpath={.status.phase}=Running", 0, "pod/up-n1 has {.status.phase}=Running\n", ""},
		{"up --for=jsonpath=.status.phase=Failed", 124, "", ".status.phase=Running"},
		{"up --for=jsonpath=.status.podIP", 0, "pod/up-n1 has .status.podIP\n", ""},
		{"nosuch --for=delete", 0, "pod/nosuch not found\n", ""},
		{"up --for=delete", 124, "", "pod/up-n1: Running, 2/2 ready"},
		{"up --for=revision=abc", 0, "pod/up-n1 is running this revision\n", ""},
		{"up --for=revision=abd", 124, "", "running another revision"},
		{"web", 124, "", "pod/web-n1: ContainerCreating, 1/2 ready, container a (image busybox:9)"},
		{"held", 124, "", "container a (image busybox:9): depends on pod default/db"},
		{"web up", 124, "pod/up-n1 is ready\n", "timed out after 0s: pod/web-n1"},
		{"nosuch", 124, "", "pod/nosuch: not found yet"},
		{"job", 1, "", "will not become ready"},
		{"lost", 1, "", "podstead describe pod lost"},
		{"node/n1 --for=condition=Ready", 0, "node/n1 has condition Ready=True\n", ""},
		{"nodes --all", 0, "node/n1 is ready\n", ""},
		{"pods -l app=none", 1, "", "no pods found"},
		{"", 2, "", "nothing to wait for"},
		{"up --for=shiny", 2, "", "must be ready"},
		{"images x", 2, "", "cannot wait for images"},
		{"pod/up node/n1", 2, "", "more than one resource type"},
		{"up -f x", 2, "", "--for=revision"},
	} {
		out, errs, err := execute(t, "",
			append([]string{"wait", "--timeout=0", "--api-socket", d.socket}, strings.Fields(c.args)...)...)
		if err != nil {
			errs += err.Error()
		}
		if Code(err) != c.code || out != c.out || !strings.Contains(errs, c.message) {
			t.Errorf("wait %s: %d %q %q, want %d %q %q", c.args, Code(err), out, errs, c.code, c.out, c.message)
		}
	}
}

// A wait that ends early names the cause of each pod, with what only its log or its events say.
func TestWaitTimeoutNamesCauses(t *testing.T) {
	crashed := pod("crashed", func(p *v1.Pod) {
		p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "CrashLoopBackOff", "back-off 10s")}
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &v1.ContainerStateTerminated{ExitCode: 3,
			Reason: "Error"}
	})
	probed := pod("probed", func(p *v1.Pod) {
		p.UID = "u2"
		p.Spec.Containers = []v1.Container{{Name: "b", ReadinessProbe: &v1.Probe{}}}
		p.Status.ContainerStatuses = []v1.ContainerStatus{running("b")}
		p.Status.ContainerStatuses[0].Ready = false
		p.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionFalse, Message: "containers with unready status: [b]"}}
	})
	d := newFakeDaemon(t, crashed, probed)
	d.routes["GET /containerLogs/{namespace}/{pod}/{container}"] = func(w http.ResponseWriter, _ *http.Request) {
		_,
			_ = w.Write([]byte("no such database\n"))
	}
	d.start()
	timedOut := func(want string, args ...string) {
		t.Helper()
		_, errs, err := execute(t, "", append([]string{"wait", "--timeout=0", "--api-socket", d.socket}, args...)...)
		if Code(err) != ExitTimeout || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v\n%s\nwant %s", args, err, errs, want)
		}
	}
	timedOut("container a (image ", "crashed")
	timedOut("a ended with code 3: no such database", "crashed")
	timedOut("condition Ready=", "crashed", "probed", "--for=condition=Ready")
	timedOut("timed out after 0s: pod/crashed-n1: CrashLoopBackOff", "crashed", "probed")
	timedOut("\npod/probed-n1: Running, 0/1 ready: containers with unready status: [b]", "crashed", "probed")
	d.events = []v1.Event{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "e"}, Reason: "Unhealthy",
		Message:        "Readiness probe failed: not yet",
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "probed-n1", UID: "u2"},
		LastTimestamp:  metav1.Now()}}
	timedOut("pod/probed-n1: Running, 0/1 ready: Readiness probe failed: not yet", "probed")
	timedOut("condition Ready=False: containers with unready status: [b]: Readiness probe failed: not yet", "probed",
		"--for=condition=Ready")
}

func TestWaitPrintsProgress(t *testing.T) {
	d := newFakeDaemon(t).start()
	w := watchLines(t, "wait", "web", "--for=ready", "--api-socket", d.socket)
	w.want("pod/web: not found yet")
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{pulling()} })
	w.want("ContainerCreating", "busybox:9")
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{ready(samples()[0])} })
	w.want("pod/web-n1 is ready")
	if err := w.end(); err != nil {
		t.Error(err)
	}
	w = watchLines(t, "wait", "other", "--for=ready", "--api-socket", d.socket)
	w.want("not found yet")
	if err := w.end(); Code(err) != ExitInterrupted || !Silent(err) {
		t.Errorf("Ctrl-C: %v", err)
	}
}

// The revision to wait for is the current content of the file.
func TestWaitForARevision(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(text string) *v1.Pod {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		content, faults := manifest.NewLoader("n1",
			manifest.ModeStrict).Load(manifest.LoadRequest{Source: manifest.SourceFile, Data: []byte(text)})
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
		out, errs, err := execute(t, "",
			append([]string{"wait", "--for=revision", "--timeout=0", "--api-socket", d.socket}, args...)...)
		return out + errs, err
	}
	if out, err := run("web"); err != nil || out != "pod/web-n1 is running the revision in its manifest\n" {
		t.Errorf("%v %s", err, out)
	}
	next := write(strings.Replace(good, "b:1", "b:2", 1))
	if out, err := run("web"); Code(err) != ExitTimeout || !strings.Contains(out, "another revision") {
		t.Errorf("a revision that is not running yet: %v %s", err, out)
	}
	w := watchLines(t, "wait", "--for=revision", "-f", file, "--api-socket", d.socket)
	w.want("another revision")
	d.change(func([]v1.Pod) []v1.Pod { return []v1.Pod{loaded(next)} })
	w.want("not found yet") // between the two revisions
	w.want("running the revision in its manifest")
	if err := w.end(); err != nil {
		t.Error(err)
	}
	write(strings.Replace(good, "image", "imge", 1))
	if out, err := run("web"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "image") ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("an invalid manifest: %v %s", err, out)
	}
	d.manifests = `[{"source":"oci","location":"x","units":[{"name":"registry.test/fleet:1","pods":["default/web"]}]}]`
	if out, err := run("web"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "registry.test/fleet:1") ||
		!strings.Contains(err.Error(), "podstead rollout status web") {
		t.Errorf("a pod of an artifact: %v %s", err, out)
	}
	d.manifests = `[]`
	if out, err := run("web"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "--for=ready") {
		t.Errorf("a pod of no manifest: %v %s", err, out)
	}
	if out, err := run("nosuch"); Code(err) != ExitFailed || !strings.Contains(err.Error(), "-f FILE") {
		t.Errorf("an unknown pod: %v %s", err, out)
	}
}

func TestRestart(t *testing.T) {
	before := ready(samples()[0])
	before.Status.ContainerStatuses[0].ContainerID, before.Status.ContainerStatuses[1].ContainerID = "x://1", "x://2"
	d := newFakeDaemon(t, before)
	requested := make(chan string, 9)
	d.routes["POST /podstead/v1/namespaces/{namespace}/pods/{pod}/restart"] = func(w http.ResponseWriter,
		r *http.Request) {
		if r.PathValue("pod") == "crash-n1" {
			http.Error(w, "cannot run pod crash-n1 again: it has ended", http.StatusConflict)
			return
		}
		requested <- r.PathValue("namespace") + "/" + r.PathValue("pod")
		_, _ = w.Write([]byte(`{"name":"` + r.PathValue("pod") + `"}`))
	}
	d.change(func(pods []v1.Pod) []v1.Pod { return append(pods, samples()[1]) })
	d.start()
	for _, args := range []string{"web", "pod web", "pod/web-n1"} {
		out, errs, err := execute(t, "", append([]string{"restart", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if err != nil || errs != "" || out != "pod/web-n1 restarting\n" || <-requested != "default/web-n1" {
			t.Errorf("restart %s: %v %q %q", args, err, out, errs)
		}
	}
	for args, want := range map[string]string{"crash": "it has ended", "web nosuch": `pod "nosuch" not found`,
		"pod": "no pod given"} {
		_, _, err := execute(t, "", append([]string{"restart", "--api-socket", d.socket}, strings.Fields(args)...)...)
		if err == nil || !strings.Contains(err.Error(), want) || len(requested) != 0 {
			t.Errorf("restart %s: %v", args, err)
		}
	}
	w := watchLines(t, "restart", "web", "--wait", "--api-socket", d.socket)
	w.want("pod/web-n1 restarting")
	w.want("pod/web-n1: terminating")
	// It has ended, and cannot start.
	d.change(func(pods []v1.Pod) []v1.Pod {
		for i := range pods[0].Status.ContainerStatuses {
			pods[0].Status.ContainerStatuses[i].State = v1.ContainerState{
				Waiting: &v1.ContainerStateWaiting{Reason: "ContainerCreating", Message: "volume data: no such directory"}}
		}
		return pods
	})
	w.want("volume data: no such directory")
	d.change(func(pods []v1.Pod) []v1.Pod {
		pods[0].Status.ContainerStatuses[0].ContainerID, pods[0].Status.ContainerStatuses[1].ContainerID = "x://3", "x://4"
		return pods
	})
	w.want("pod/web-n1 restarted")
	if err := w.end(); err != nil {
		t.Error(err)
	}
}

// A wait for a revision that was rolled back, or is not to be on request, fails at once; one
// for a newer revision goes on.
func TestWaitForARejectedRevision(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	content, _ := manifest.NewLoader("n1",
		manifest.ModeStrict).Load(manifest.LoadRequest{Source: manifest.SourceFile, Data: []byte(good)})
	waited := content.Documents[0].Pod
	hash := waited.Annotations[podinfo.AnnotationHash]
	running := ready(*waited.DeepCopy())
	running.Annotations[podinfo.AnnotationHash] = "last good"
	for _, c := range []struct {
		state    api.RolloutState
		manifest string
		code     int
		want     string
	}{
		{api.RolloutRolledBack, hash, ExitFailed,
			"will not run this revision: why it is RolledBack; correct the manifest, or use podstead rollout retry web"},
		{api.RolloutUndone, hash, ExitFailed, "why it is Undone"},
		{"RollingBack", hash, ExitTimeout, "another revision"},
		{api.RolloutRolledBack, "an older manifest", ExitTimeout, "another revision"},
		{api.RolloutRolledBack, "", ExitTimeout, "another revision"}, // a daemon that was not restarted since an upgrade
	} {
		d := newFakeDaemon(t, running)
		d.manifests = `[{"source":"file","location":"x","units":[{"name":"` + file + `","pods":["default/web"]}]}]`
		d.routes["GET /podstead/v1/rollouts"] = func(w http.ResponseWriter, _ *http.Request) {
			r := rollout(c.state)
			r.Manifest = c.manifest
			_ = json.NewEncoder(w).Encode([]api.Rollout{r})
		}
		d.start()
		for _, args := range [][]string{{"web", "--for=revision"}, {"-f", file, "--for=revision"},
			{"web", "--for=revision=" + hash}} {
			out, errs, err := execute(t, "", append([]string{"wait", "--timeout=0", "--api-socket", d.socket}, args...)...)
			if err == nil || Code(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %q, wait %v: %d %v %s%s", c.state, c.manifest, args, Code(err), err, out, errs)
			}
		}
	}
}
