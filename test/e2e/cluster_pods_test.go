package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// boundPod returns a pod that is bound to the node. Its name has the suffix of a static pod,
// so that the helpers that find pods by name work. fields are additional fields of the spec,
// script is the command of main.
func (n *node) boundPod(name, script, fields string) string {
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  nodeName: %s
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 60
  volumes:
  - {name: out, hostPath: {path: %s, type: DirectoryOrCreate}}
  - {name: labels, downwardAPI: {items: [{path: app, fieldRef: {fieldPath: "metadata.labels['app']"}}]}}
`, n.PodName(name), name, n.Name, n.outDir())
	for line := range strings.Lines(fields) {
		text += "  " + line
	}
	return text + fmt.Sprintf(`  containers:
  - name: main
    image: %s
    command: [sh, -c, %q]
    resources: {requests: {cpu: 10m, memory: 16Mi}, limits: {cpu: 100m, memory: 32Mi}}
    volumeMounts: [{name: out, mountPath: /out}, {name: labels, mountPath: /labels}]
`, testbed.BusyboxImage, script)
}

// recordTermination creates a file when it gets SIGTERM, and exits. The grace period is that of a
// busy machine.
const recordTermination = "trap 'sleep 1; touch /out/$HOSTNAME.terminated; exit 0' TERM; while :; do sleep 0.1; done"

// create creates an object in the cluster.
func (a *admin) create(text string) {
	a.t.Helper()
	a.must("create", "-f", a.file(text))
}

// file returns the path of a file with the text.
func (a *admin) file(text string) string {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// Pods that the cluster binds to this node run, have their status in the API, and terminate
// when they are deleted.
func TestClusterPods(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, a, kubeconfig := newCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.must("create", "serviceaccount", "default")
	n.writeManifest("static.yaml", sleepPod("static", "one"))
	n.start()
	static := n.awaitRunning("static")

	// A pod runs, and its status is in the API.
	a.create(n.boundPod("web", recordTermination, ""))
	web := n.awaitRunning("web")
	if out := n.exec(web, "hostname"); out != n.PodName("web") {
		t.Errorf("hostname %q", out)
	}
	shown := a.awaitMirror(n, "its status is reported", "default", "web", podReady)
	local := n.awaitReady("web")
	if st := shown.Status; local.UID != shown.UID || st.PodIP == "" || st.PodIP != local.Status.PodIP || st.StartTime == nil ||
		st.ObservedGeneration != shown.Generation || len(st.ContainerStatuses) != 1 || !strings.HasSuffix(st.ContainerStatuses[0].ContainerID, web.ID) {
		t.Errorf("the API has %+v, the daemon %+v", shown.Status, local.Status)
	}
	if out, _, _ := n.podstead("get", "pods", "-o", "wide", "--api-socket", n.Socket()); !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
		return strings.Contains(line, n.PodName("web")) && slices.Contains(strings.Fields(line), "api")
	}) {
		t.Errorf("the daemon reports it as\n%s", out)
	}
	a.must("label", "pod", n.PodName("web"), "--overwrite", "app=other")
	n.awaitExec(web, "other", "cat", "/labels/app")

	// A deleted pod gets SIGTERM, and its object is removed after it has terminated.
	a.must("delete", "pod", n.PodName("web"), "--wait=false")
	a.awaitMirrorGone(n, "default", "web")
	if _, err := os.Stat(filepath.Join(n.outDir(), n.PodName("web")+".terminated")); err != nil {
		t.Errorf("the object was removed before the pod had terminated: %v", err)
	}
	n.awaitGone("web")

	// A completed pod is not started again.
	a.create(n.boundPod("job", "echo ran >> /out/job", "restartPolicy: Never\n"))
	a.awaitMirror(n, "it has succeeded", "default", "job", func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodSucceeded || len(p.Status.ContainerStatuses) != 1 || p.Status.ContainerStatuses[0].State.Terminated == nil {
			return fmt.Errorf("%+v", p.Status)
		}
		return nil
	})
	if count := n.lines("job"); count != 1 {
		t.Errorf("it ran %d times", count)
	}

	// Readiness gates set by another client count for its readiness.
	a.create(n.boundPod("app", recordTermination, "readinessGates: [{conditionType: example.com/gate}]\n"))
	app := n.awaitRunning("app")
	isReady := func(want v1.ConditionStatus) func(*v1.Pod) error {
		return func(p *v1.Pod) error {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodReady && c.Status == want {
					return nil
				}
			}
			return fmt.Errorf("%+v", p.Status.Conditions)
		}
	}
	a.awaitMirror(n, "the readiness gate is false", "default", "app", isReady(v1.ConditionFalse))
	a.must("patch", "pod", n.PodName("app"), "--subresource", "status", "-p", `{"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}`)
	a.awaitMirror(n, "the readiness gate is true", "default", "app", isReady(v1.ConditionTrue))

	// Its resources are resized in place, and reported.
	at, err := cgroupPath(app.Pid, "memory")
	if err != nil {
		t.Fatal(err)
	}
	a.must("patch", "pod", n.PodName("app"), "--subresource", "resize", "-p", `{"spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "48Mi"}}}]}}`)
	n.await("the kernel has the new limit", func() error {
		if got, err := cgroupValue("memory", at, "memory.limit_in_bytes"); err != nil || got != fmt.Sprint(48<<20) {
			return fmt.Errorf("%s %v", got, err)
		}
		return nil
	})
	a.awaitMirror(n, "the API has the new limit", "default", "app", func(p *v1.Pod) error {
		r := p.Status.ContainerStatuses[0].Resources
		if r == nil || r.Limits.Memory().Value() != 48<<20 || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("%+v of generation %d: %+v", p.Status, p.Generation, r)
		}
		return nil
	})

	// An ephemeral container sees its processes.
	a.must("debug", n.PodName("app"), "--image", testbed.BusyboxImage, "--container", "debug", "--target", "main", "--", "sleep", "100000")
	debug := n.awaitContainer("app", "debug")
	if out := n.exec(debug, "cat", "/proc/1/cmdline"); !strings.Contains(out, ".terminated") {
		t.Errorf("process 1 is %q", out)
	}
	a.awaitMirror(n, "it is reported", "default", "app", func(p *v1.Pod) error {
		if e := p.Status.EphemeralContainerStatuses; len(e) != 1 || e[0].State.Running == nil {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})

	// A restarted daemon continues with them, also without an API server.
	a.create(n.boundPod("short", recordTermination, ""))
	short := n.awaitRunning("short")
	a.create(n.boundPod("forced", recordTermination, ""))
	n.awaitRunning("forced")
	n.Kill()
	a.must("delete", "pod", n.PodName("short"), "--wait=false")
	a.must("delete", "pod", n.PodName("forced"), "--wait=false", "--grace-period=0", "--force")
	c.KillAPI()
	n.start()
	n.awaitReady("static")
	n.mustStillRun("app", app)
	n.mustStillRun("short", short)
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.awaitMirrorGone(n, "default", "short")
	n.awaitGone("short")
	n.awaitGone("forced")
	n.awaitReady("app")

	// If the API server is down while one pod starts and another terminates, it gets both
	// statuses when it is back.
	a.create(n.boundPod("last", recordTermination, ""))
	a.must("delete", "pod", n.PodName("app"), "--wait=false")
	n.awaitStatus("app", "it is being deleted", func(p v1.Pod) error {
		if p.DeletionTimestamp == nil {
			return errors.New("not yet")
		}
		return nil
	})
	last := n.awaitRunning("last")
	c.KillAPI()
	n.awaitGone("app")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.awaitMirrorGone(n, "default", "app")
	a.awaitMirror(n, "it is ready", "default", "last", podReady)
	n.mustStillRun("last", last)
	n.mustStillRun("static", static)
}
