package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// boundPod returns a pod that is bound to the node. Its name has the suffix of a static pod,
// so that the helpers that find pods by name work. fields are additional fields of the spec,
// script is the command of main.
func boundPod(n *harness.Node, name, script, fields string) string {
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
`, n.PodName(name), name, n.Name, n.OutDir())
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

// Pods that the cluster binds to this node run, have their status in the API, and terminate
// when they are deleted.
func TestClusterPods(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, a, kubeconfig := harness.NewCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	a.Must("create", "serviceaccount", "default")
	n.WriteManifest("static.yaml", harness.SleepPod("static", "one"))
	n.MustStart()
	static := n.AwaitRunning("static")

	// A pod runs, and its status is in the API.
	a.Create(boundPod(n, "web", recordTermination, ""))
	web := n.AwaitRunning("web")
	if out := n.Exec(web, "hostname"); out != n.PodName("web") {
		t.Errorf("hostname %q", out)
	}
	shown := a.AwaitMirror(n, "its status is reported", "default", "web", harness.PodReady)
	local := n.AwaitReady("web")
	if st := shown.Status; local.UID != shown.UID || st.PodIP == "" || st.PodIP != local.Status.PodIP ||
		st.StartTime == nil ||
		st.ObservedGeneration != shown.Generation || len(st.ContainerStatuses) != 1 ||
		!strings.HasSuffix(st.ContainerStatuses[0].ContainerID, web.ID) {
		t.Errorf("the API has %+v, the daemon %+v", shown.Status, local.Status)
	}
	if out, _, _ := n.Podstead("get", "pods", "-o", "wide", "--api-socket",
		n.Socket()); !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
		return strings.Contains(line, n.PodName("web")) && slices.Contains(strings.Fields(line), "api")
	}) {
		t.Errorf("the daemon reports it as\n%s", out)
	}
	a.Must("label", "pod", n.PodName("web"), "--overwrite", "app=other")
	n.AwaitExec(web, "other", "cat", "/labels/app")

	// A deleted pod gets SIGTERM, and its object is removed after it has terminated.
	a.Must("delete", "pod", n.PodName("web"), "--wait=false")
	a.AwaitMirrorGone(n, "default", "web")
	if _, err := os.Stat(filepath.Join(n.OutDir(), n.PodName("web")+".terminated")); err != nil {
		t.Errorf("the object was removed before the pod had terminated: %v", err)
	}
	n.AwaitGone("web")

	// A completed pod is not started again.
	a.Create(boundPod(n, "job", "echo ran >> /out/job", "restartPolicy: Never\n"))
	a.AwaitMirror(n, "it has succeeded", "default", "job", func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodSucceeded || len(p.Status.ContainerStatuses) != 1 ||
			p.Status.ContainerStatuses[0].State.Terminated == nil {
			return fmt.Errorf("%+v", p.Status)
		}
		return nil
	})
	if count := n.Lines("job"); count != 1 {
		t.Errorf("it ran %d times", count)
	}

	// Readiness gates set by another client count for its readiness.
	a.Create(boundPod(n, "app", recordTermination, "readinessGates: [{conditionType: example.com/gate}]\n"))
	app := n.AwaitRunning("app")
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
	a.AwaitMirror(n, "the readiness gate is false", "default", "app", isReady(v1.ConditionFalse))
	a.Must("patch", "pod", n.PodName("app"), "--subresource", "status", "-p",
		`{"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}`)
	a.AwaitMirror(n, "the readiness gate is true", "default", "app", isReady(v1.ConditionTrue))

	// Its resources are resized in place, and reported.
	at, err := harness.CgroupPath(app.Pid, "memory")
	if err != nil {
		t.Fatal(err)
	}
	a.Must("patch", "pod", n.PodName("app"), "--subresource", "resize", "-p",
		`{"spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "48Mi"}}}]}}`)
	n.Await("the kernel has the new limit", func() error {
		if got, err := harness.CgroupValue("memory", at, "memory.limit_in_bytes"); err != nil || got != fmt.Sprint(48<<20) {
			return fmt.Errorf("%s %v", got, err)
		}
		return nil
	})
	a.AwaitMirror(n, "the API has the new limit", "default", "app", func(p *v1.Pod) error {
		r := p.Status.ContainerStatuses[0].Resources
		if r == nil || r.Limits.Memory().Value() != 48<<20 || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("%+v of generation %d: %+v", p.Status, p.Generation, r)
		}
		return nil
	})

	// An ephemeral container sees its processes.
	a.Must("debug", n.PodName("app"), "--image", testbed.BusyboxImage, "--container", "debug", "--target", "main", "--",
		"sleep", "100000")
	debug := n.AwaitContainer("app", "debug")
	if out := n.Exec(debug, "cat", "/proc/1/cmdline"); !strings.Contains(out, ".terminated") {
		t.Errorf("process 1 is %q", out)
	}
	a.AwaitMirror(n, "it is reported", "default", "app", func(p *v1.Pod) error {
		if e := p.Status.EphemeralContainerStatuses; len(e) != 1 || e[0].State.Running == nil {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})

	// A restarted daemon continues with them, also without an API server.
	a.Create(boundPod(n, "short", recordTermination, ""))
	short := n.AwaitRunning("short")
	a.Create(boundPod(n, "forced", recordTermination, ""))
	n.AwaitRunning("forced")
	n.Kill()
	a.Must("delete", "pod", n.PodName("short"), "--wait=false")
	a.Must("delete", "pod", n.PodName("forced"), "--wait=false", "--grace-period=0", "--force")
	c.KillAPI()
	n.MustStart()
	n.AwaitReady("static")
	n.MustStillRun("app", app)
	n.MustStillRun("short", short)
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.AwaitMirrorGone(n, "default", "short")
	n.AwaitGone("short")
	n.AwaitGone("forced")
	n.AwaitReady("app")

	// If the API server is down while one pod starts and another terminates, it gets both
	// statuses when it is back.
	a.Create(boundPod(n, "last", recordTermination, ""))
	a.Must("delete", "pod", n.PodName("app"), "--wait=false")
	n.AwaitStatus("app", "it is being deleted", func(p v1.Pod) error {
		if p.DeletionTimestamp == nil {
			return errors.New("not yet")
		}
		return nil
	})
	last := n.AwaitRunning("last")
	c.KillAPI()
	n.AwaitGone("app")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.AwaitMirrorGone(n, "default", "app")
	a.AwaitMirror(n, "it is ready", "default", "last", harness.PodReady)
	n.MustStillRun("last", last)
	n.MustStillRun("static", static)
}
