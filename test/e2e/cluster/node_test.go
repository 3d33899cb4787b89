package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// audit is the audit log of an API server, with the requests of one node.
type audit struct{ log string }

// auditEvent is the part of an audit event that the tests read.
type auditEvent struct {
	Verb      string
	ObjectRef struct{ Resource, Subresource, Name string }
	// RequestReceivedTimestamp is when the API server got the request.
	RequestReceivedTimestamp metav1.MicroTime
}

func (e *auditEvent) String() string {
	return strings.Join(slices.DeleteFunc([]string{e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource,
		e.ObjectRef.Name}, func(s string) bool { return s == "" }), " ")
}

// auditNode makes the API server log each request of a node. It is called before the API
// server starts.
func auditNode(n *harness.Node, c *testbed.Cluster) *audit {
	n.T.Helper()
	dir := n.T.TempDir()
	policy, a := filepath.Join(dir, "policy.yaml"), &audit{filepath.Join(dir, "audit.log")}
	if err := os.WriteFile(policy, []byte(`apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, users: ["system:node:`+n.Name+`"]}]
`), 0o600); err != nil {
		n.T.Fatal(err)
	}
	c.Flags = append(c.Flags, "--audit-policy-file", policy, "--audit-log-path", a.log)
	return a
}

// requests returns the requests so far, except lists and watches.
func (a *audit) requests() ([]auditEvent, error) {
	data, err := os.ReadFile(a.log)
	if err != nil {
		return nil, err
	}
	var all []auditEvent
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var e auditEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		if e.Verb != "list" && e.Verb != "watch" {
			all = append(all, e)
		}
	}
	return all, nil
}

// awaitHeartbeatsOnly waits until the node renews its lease several times in a row and
// requests nothing else but an occasional report of its own status.
func (a *audit) awaitHeartbeatsOnly(n *harness.Node) {
	n.T.Helper()
	const renewals = 6
	n.Await("the node sends heartbeats only", func() error {
		all, err := a.requests()
		if err != nil {
			return err
		}
		leases, reports := 0, 0
		var first, last time.Time
		for _, e := range slices.Backward(all) {
			switch e.String() {
			case "update leases " + n.Name:
				if leases++; leases == 1 {
					last = e.RequestReceivedTimestamp.Time
				}
				first = e.RequestReceivedTimestamp.Time
			case "patch nodes status " + n.Name:
				reports++
			default:
				return fmt.Errorf("%d renewals of the lease after %s, in all %d requests", leases, e.String(), len(all))
			}
			if leases == renewals {
				break
			}
		}
		// There is at most one report in ten seconds; on a busy machine renewals are late.
		if took := last.Sub(first); leases < renewals || reports > 2+int(took/(10*time.Second)) {
			return fmt.Errorf("%d renewals of the lease and %d reports of the node in %s", leases, reports, took)
		}
		return nil
	})
}

// A node does in a cluster what a kubelet does: it sends heartbeats only while its pods are
// ready, it replaces the mirror pod of an edited manifest when the previous revision has
// terminated, it keeps deleted pods that finalizers hold, and rejects those of another
// operating system.
func TestClusterNode(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, err := testbed.NewCluster(n.Name)
	if err != nil {
		t.Fatal(err)
	}
	log := auditNode(n, c)
	a, kubeconfig := harness.UseCluster(n, c)
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config,
		[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nnodeLeaseDurationSeconds: 8\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--config", config)
	a.Must("create", "serviceaccount", "default")
	n.WriteManifest("static.yaml", mirroredPod("name: static", ""))
	n.MustStart()
	a.Create(boundPod(n, "bound", recordTermination,
		"initContainers:\n- {name: init, image: '"+testbed.BusyboxImage+"', command: ['true']}\n"))
	a.AwaitMirror(n, "the static pod is ready", "default", "static", harness.PodReady)
	bound := a.AwaitMirror(n, "the cluster's pod is ready", "default", "bound", harness.PodReady)
	for _, c := range bound.Status.Conditions {
		if c.Reason != "" && c.Status == v1.ConditionTrue || c.Message != "" {
			t.Errorf("condition %+v of a ready pod", c)
		}
	}
	log.awaitHeartbeatsOnly(n)

	checkMirrorOfEditedManifest(n, a, log)
	checkPodsHeldByFinalizers(n, a)
	checkPodsOfOperatingSystems(n, a)
	checkDeclaredFeatures(n, a)
}

// checkMirrorOfEditedManifest checks that the mirror pod of an edited manifest is replaced when the
// previous revision has terminated, and not before.
func checkMirrorOfEditedManifest(n *harness.Node, a *harness.Admin, log *audit) {
	out := n.OutDir()
	manifest := func(revision string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: edited}
spec:
  terminationGracePeriodSeconds: 1800
  volumes: [{name: out, hostPath: {path: %s, type: DirectoryOrCreate}}]
  containers:
  - name: main
    image: %s
    command: [sh, -c, "trap 'touch /out/edited.signalled; until [ -e /out/edited.release ]; do sleep 0.1; done; exit 0' TERM; while :; do sleep 0.1; done"]
    env: [{name: REV, value: %s}]
    volumeMounts: [{name: out, mountPath: /out}]
`, out, testbed.BusyboxImage, revision)
	}
	n.WriteManifest("edited.yaml", manifest("one"))
	before := a.AwaitMirror(n, "the first revision is ready", "default", "edited", harness.PodReady)
	n.WriteManifest("edited.yaml", manifest("two"))
	n.Await("the first revision terminates", func() error {
		_, err := os.Stat(filepath.Join(out, "edited.signalled"))
		return err
	})
	log.awaitHeartbeatsOnly(n) // the node has done what it does about the edit
	during := &v1.Pod{}
	if err := a.Get(during, "pod", n.PodName("edited")); err != nil || during.UID != before.UID ||
		during.DeletionTimestamp != nil {
		n.T.Errorf("while the first revision terminates its mirror pod is %v (%v)", during.ObjectMeta, err)
	}
	released := time.Now()
	if err := os.WriteFile(filepath.Join(out, "edited.release"), nil, 0o600); err != nil {
		n.T.Fatal(err)
	}
	a.AwaitMirror(n, "the second revision is ready", "default", "edited", func(p *v1.Pod) error {
		if p.UID == before.UID || p.Spec.Containers[0].Env[0].Value != "two" {
			return errors.New("still the first revision")
		}
		return harness.PodReady(p)
	})
	all, err := log.requests()
	if err != nil {
		n.T.Fatal(err)
	}
	i := slices.IndexFunc(all, func(e auditEvent) bool { return e.String() == "delete pods "+n.PodName("edited") })
	if i < 0 || all[i].RequestReceivedTimestamp.Time.Before(released) {
		n.T.Errorf("the mirror pod was not deleted after %v: %v", released, all)
	}
}

// checkPodsHeldByFinalizers checks that deleted pods reach a terminal phase, whether or not they
// started, and stay known while a finalizer holds their objects.
func checkPodsHeldByFinalizers(n *harness.Node, a *harness.Admin) {
	const finalizer = `{"metadata": {"finalizers": ["batch.kubernetes.io/job-tracking"]}}`
	a.Create(boundPod(n, "unstarted", recordTermination,
		"initContainers:\n- {name: init, image: 'none.invalid/none:1', imagePullPolicy: Never}\n"))
	a.Create(boundPod(n, "started", recordTermination, ""))
	a.AwaitMirror(n, "it is ready", "default", "started", harness.PodReady)
	a.AwaitMirror(n, "its init container waits", "default", "unstarted", func(p *v1.Pod) error {
		if s := p.Status.InitContainerStatuses; len(s) != 1 || s[0].State.Waiting == nil ||
			s[0].State.Waiting.Reason != "ErrImageNeverPull" {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	for _, name := range []string{"unstarted", "started"} {
		a.Must("patch", "pod", n.PodName(name), "--type=merge", "-p", finalizer)
		a.Must("delete", "pod", n.PodName(name), "--wait=false")
	}
	for name, want := range map[string]v1.PodPhase{"unstarted": v1.PodFailed, "started": v1.PodSucceeded} {
		held := a.AwaitMirror(n, "it has ended, and the node has deleted it", "default", name, func(p *v1.Pod) error {
			if p.Status.Phase != want || p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 0 {
				return fmt.Errorf("%s, deletion %v in %v s", p.Status.Phase, p.DeletionTimestamp, p.DeletionGracePeriodSeconds)
			}
			return nil
		})
		if local, err := n.Pod(name); err != nil || local.UID != held.UID || local.Status.Phase != want {
			n.T.Errorf("the daemon has %s %s, want %s (%v)", local.UID, local.Status.Phase, want, err)
		}
		a.Must("patch", "pod", n.PodName(name), "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
		a.AwaitMirrorGone(n, "default", name)
		n.Await("the daemon forgets it", func() error {
			if p, err := n.Pod(name); err == nil {
				return fmt.Errorf("it is %s", p.Status.Phase)
			}
			return nil
		})
	}
}

// checkPodsOfOperatingSystems checks what becomes of pods with fields for another operating system.
func checkPodsOfOperatingSystems(n *harness.Node, a *harness.Admin) {
	a.Create(boundPod(n, "windows", recordTermination, "os: {name: windows}\n"))
	a.Create(boundPod(n, "options", recordTermination,
		"securityContext: {windowsOptions: {runAsUserName: ContainerUser}}\n"))
	a.AwaitMirror(n, "it is rejected", "default", "windows", func(p *v1.Pod) error {
		if p.Status.Phase != v1.PodFailed || p.Status.Reason != "PodOSNotSupported" {
			return fmt.Errorf("%s %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
	a.AwaitMirror(n, "options of another operating system are ignored", "default", "options", harness.PodReady)
	// A manifest for another operating system is rejected when it is read.
	n.WriteManifest("windows.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: static-windows}\nspec:\n  os: {name: "+
		"windows}\n  containers: [{name: main, image: busybox:1.36}]\n")
	n.AwaitManifestError("windows.yaml", "spec.os.name", "must be linux")
	n.RemoveManifest("windows.yaml")
}

// checkDeclaredFeatures checks that the node declares what it can do, and that the API server
// allows the resize of an init container because of it.
func checkDeclaredFeatures(n *harness.Node, a *harness.Admin) {
	registered := &v1.Node{}
	if err := a.Get(registered, "node", n.Name); err != nil {
		n.T.Fatal(err)
	}
	want := []string{"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling",
		"InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits"}
	if got := registered.Status.DeclaredFeatures; !slices.Equal(got, want) {
		n.T.Errorf("declared features %q, want %q", got, want)
	}
	a.Create(boundPod(n, "resized", recordTermination,
		"initContainers:\n- {name: setup, image: '"+testbed.BusyboxImage+
			"', command: [sleep, '100000'], resources: {limits: {memory: 32Mi, cpu: 100m}}}\n"))
	setup := n.AwaitContainer("resized", "setup")
	a.Must("patch", "pod", n.PodName("resized"), "--subresource", "resize", "-p",
		`{"spec": {"initContainers": [{"name": "setup", "resources": {"limits": {"memory": "48Mi"}, "requests": {"memory": "48Mi"}}}]}}`)
	n.Await("the kernel has the new limit of the init container", func() error {
		at, err := harness.CgroupPath(setup.Pid, "memory")
		if err != nil {
			return err
		}
		if got, err := harness.CgroupValue("memory", at, "memory.limit_in_bytes"); err != nil || got != fmt.Sprint(48<<20) {
			return fmt.Errorf("%s %v", got, err)
		}
		return nil
	})
	if again := n.AwaitContainer("resized", "setup"); again != setup {
		n.T.Errorf("the init container is %v, was %v", again, setup)
	}
}
