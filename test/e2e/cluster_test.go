package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// admin is a client of a cluster's API server with administrator rights.
type admin struct {
	t      *testing.T
	config string
}

// kubectl runs kubectl as the administrator and returns its output.
func (a *admin) kubectl(args ...string) (string, error) {
	cmd := exec.CommandContext(a.t.Context(), testbed.Kubectl(), append([]string{"--kubeconfig", a.config}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// must runs kubectl as the administrator and fails the test unless it succeeds.
func (a *admin) must(args ...string) {
	a.t.Helper()
	if _, err := a.kubectl(args...); err != nil {
		a.t.Fatal(err)
	}
}

// get reads an object into the value.
func (a *admin) get(into any, args ...string) error {
	out, err := a.kubectl(append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

// awaitMirror waits until a pod's mirror pod satisfies check.
func (a *admin) awaitMirror(n *node, what, namespace, name string, check func(*v1.Pod) error) *v1.Pod {
	n.t.Helper()
	var pod *v1.Pod
	n.await(what, func() error {
		pod = &v1.Pod{}
		if err := a.get(pod, "pod", "-n", namespace, n.PodName(name)); err != nil {
			return err
		}
		return check(pod)
	})
	return pod
}

// awaitMirrorGone waits until a mirror pod is removed.
func (a *admin) awaitMirrorGone(n *node, namespace, name string) {
	n.t.Helper()
	n.await("the mirror pod is removed", func() error {
		_, err := a.kubectl("get", "pod", "-n", namespace, n.PodName(name))
		switch {
		case err == nil:
			return errors.New("it still exists")
		case !strings.Contains(err.Error(), "NotFound"):
			return err
		}
		return nil
	})
}

// podReady returns an error unless the pod is ready.
func podReady(p *v1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not ready: %s %v", p.Status.Phase, p.Status.Conditions)
}

// newCluster starts a cluster for the duration of the test. It returns the cluster, its
// administrator and the kubeconfig of the node.
func newCluster(ctx context.Context, n *node) (*testbed.Cluster, *admin, string) {
	n.t.Helper()
	c, err := testbed.NewCluster(n.Name)
	if err != nil {
		n.t.Fatal(err)
	}
	a, kubeconfig := useCluster(n, c)
	if err := c.StartAPI(ctx); err != nil {
		n.t.Fatal(err)
	}
	return c, a, kubeconfig
}

// useCluster stops a cluster at the end of the test. It returns the cluster's administrator
// and the kubeconfig of the node.
func useCluster(n *node, c *testbed.Cluster) (*admin, string) {
	n.t.Helper()
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("end of the API server's log:\n%s", c.Log())
		}
		if err := c.Stop(); err != nil {
			n.t.Error(err)
		}
	})
	adminConfig, err := c.Kubeconfig("admin", "system:masters")
	if err != nil {
		n.t.Fatal(err)
	}
	kubeconfig, err := c.NodeKubeconfig(n.Name)
	if err != nil {
		n.t.Fatal(err)
	}
	return &admin{n.t, adminConfig}, kubeconfig
}

// A machine joins a cluster with a node's rights: it registers, renews its lease and creates
// mirror pods of its static pods, across deletions, an unreachable API server and one that
// lost all data. None of this affects running pods.
func TestCluster(t *testing.T) {
	t.Parallel()
	n := newNode(t, sharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, a, kubeconfig := newCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--node-labels", "disk=ssd", "--register-with-taints", "only=edge:NoSchedule", "--provider-id", "testbed://1")
	n.writeManifest("web.yaml", mirroredPod("name: web", "{name: REV, value: one}"))
	n.writeManifest("local.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {color: red}\n---\n"+
		mirroredPod("name: local", "{name: COLOR, valueFrom: {configMapKeyRef: {name: conf, key: color}}}"))
	// The API server is down when the daemon starts.
	c.KillAPI()
	n.start()
	started := n.awaitRunning("web")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}

	a.awaitNode(n)
	lease := func() (time.Time, error) {
		l := &coordinationv1.Lease{}
		if err := a.get(l, "lease", "-n", "kube-node-lease", n.Name); err != nil {
			return time.Time{}, err
		}
		return l.Spec.RenewTime.Time, nil
	}
	var first time.Time
	n.await("a lease", func() (err error) { first, err = lease(); return err })

	web := a.awaitMirror(n, "the mirror pod is ready", "default", "web", podReady)
	if web.Annotations["kubernetes.io/config.mirror"] == "" || len(web.OwnerReferences) != 1 || web.OwnerReferences[0].Kind != "Node" {
		t.Errorf("mirror: %v %v", web.Annotations, web.OwnerReferences)
	}
	if local := n.awaitReady("web").Status; web.Status.PodIP == "" || web.Status.PodIP != local.PodIP || web.Status.ContainerStatuses[0].ContainerID != local.ContainerStatuses[0].ContainerID {
		t.Errorf("the mirror pod has %v, the daemon %v", web.Status, local)
	}
	local := a.awaitMirror(n, "the mirror pod of a pod with local objects", "default", "local", podReady)
	if left := local.Annotations["podstead.io/left-out-of-mirror"]; left != "spec.containers[main].env[COLOR]" {
		t.Errorf("left out: %q", left)
	}

	n.await("the pod's events are in the API", func() error {
		out, err := a.kubectl("describe", "pod", n.PodName("web"))
		if err == nil && !strings.Contains(out, "Started container main") {
			err = errors.New(out)
		}
		return err
	})

	// A deleted mirror pod is created again, and the pod keeps running.
	a.must("delete", "pod", n.PodName("web"), "--wait=false")
	again := a.awaitMirror(n, "a new mirror pod", "default", "web", func(p *v1.Pod) error {
		if p.UID == web.UID {
			return errors.New("still the previous instance")
		}
		return podReady(p)
	})

	// A pod whose namespace does not exist in the cluster runs, and an event says why it has
	// no mirror pod.
	n.writeManifest("orphan.yaml", mirroredPod("name: orphan, namespace: nowhere", ""))
	n.awaitEvent("orphan", "FailedMirror", `namespaces "nowhere" not found`)
	a.must("create", "namespace", "nowhere")
	a.awaitMirror(n, "it has a mirror pod once the namespace exists", "nowhere", "orphan", podReady)

	// Without an API server all pods keep running; their status is reported later.
	c.KillAPI()
	n.writeManifest("web.yaml", mirroredPod("name: web", "{name: REV, value: two}"))
	started = n.awaitOther("web", started)
	n.removeManifest("orphan.yaml")
	n.awaitGone("orphan")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.awaitMirror(n, "the mirror pod of the new revision", "default", "web", func(p *v1.Pod) error {
		if p.UID == again.UID || p.Spec.Containers[0].Env[0].Value != "two" {
			return errors.New("still the previous instance")
		}
		return podReady(p)
	})
	a.awaitMirrorGone(n, "nowhere", "orphan")

	// A restarted daemon removes the mirror pod of a manifest that was removed meanwhile.
	n.Kill()
	n.removeManifest("local.yaml")
	n.start()
	a.awaitMirrorGone(n, "default", "local")

	// The node object is deleted; then the cluster loses all data.
	a.must("delete", "node", n.Name, "--wait=false")
	a.awaitNode(n)
	a.awaitMirror(n, "a mirror pod of the new node object", "default", "web", podReady)
	c.KillAPI()
	if err := c.WipeEtcd(); err != nil {
		t.Fatal(err)
	}
	if err := c.StartEtcd(); err != nil {
		t.Fatal(err)
	}
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.awaitNode(n)
	a.awaitMirror(n, "a mirror pod in the new cluster", "default", "web", podReady)
	n.await("the lease is renewed", func() error {
		renewed, err := lease()
		if err == nil && !renewed.After(first) {
			err = errors.New("not yet")
		}
		return err
	})
	// The node leaves the cluster. A node has no right to delete its own object.
	n.cli(0, []string{"removed from its cluster", "kubectl delete node " + n.Name}, "cluster", "leave")
	if out, err := a.kubectl("get", "pods,leases", "-A", "-o", "name"); err != nil || strings.Contains(out, n.Name) {
		t.Errorf("the node object still exists: %s %v", out, err)
	}
	a.must("delete", "node", n.Name)
	n.mustStillRun("web", started)
}

func mirroredPod(meta, env string) string {
	return `apiVersion: v1
kind: Pod
metadata: {` + meta + `}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: main, image: busybox:1.36, command: [sleep, "100000"], env: [` + env + `]}
`
}

// awaitNode waits until the node is registered and ready.
func (a *admin) awaitNode(n *node) {
	n.t.Helper()
	n.await("the node is registered", func() error {
		node := &v1.Node{}
		if err := a.get(node, "node", n.Name); err != nil {
			return err
		}
		taint := v1.Taint{Key: "only", Value: "edge", Effect: v1.TaintEffectNoSchedule}
		found := false
		for _, have := range node.Spec.Taints {
			found = found || have.MatchTaint(&taint)
		}
		if !found || node.Labels["disk"] != "ssd" || node.Spec.ProviderID != "testbed://1" || node.Status.Capacity.Pods().IsZero() {
			return fmt.Errorf("node: %v %v %v", node.Labels, node.Spec, node.Status.Capacity)
		}
		if st := node.Status; len(st.Images) == 0 || len(st.Images[0].Names) == 0 || len(st.RuntimeHandlers) == 0 || st.Features == nil ||
			len(st.VolumesInUse) > 0 || st.NodeInfo.BootID == "" || st.NodeInfo.ContainerRuntimeVersion == "" {
			return fmt.Errorf("node: %v %v %v %v", st.Images, st.RuntimeHandlers, st.Features, st.NodeInfo)
		}
		for _, c := range node.Status.Conditions {
			if c.LastHeartbeatTime.IsZero() || c.LastTransitionTime.IsZero() {
				return fmt.Errorf("condition %v", c)
			}
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("not ready: %v", node.Status.Conditions)
	})
}
