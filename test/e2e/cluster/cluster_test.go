package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// A machine joins a cluster with a node's rights: it registers, renews its lease and creates
// mirror pods of its static pods, across deletions, an unreachable API server and one that
// lost all data. None of this affects running pods.
func TestCluster(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	ctx := t.Context()
	c, a, kubeconfig := harness.NewCluster(ctx, n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--node-labels", "disk=ssd", "--register-with-taints",
		"only=edge:NoSchedule", "--provider-id", "testbed://1")
	n.WriteManifest("web.yaml", mirroredPod("name: web", "{name: REV, value: one}"))
	n.WriteManifest("local.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {color: red}\n---\n"+
		mirroredPod("name: local", "{name: COLOR, valueFrom: {configMapKeyRef: {name: conf, key: color}}}"))
	// The API server is down when the daemon starts.
	c.KillAPI()
	n.MustStart()
	started := n.AwaitRunning("web")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}

	awaitNode(a, n)
	lease := func() (time.Time, error) {
		l := &coordinationv1.Lease{}
		if err := a.Get(l, "lease", "-n", "kube-node-lease", n.Name); err != nil {
			return time.Time{}, err
		}
		return l.Spec.RenewTime.Time, nil
	}
	var first time.Time
	n.Await("a lease", func() (err error) { first, err = lease(); return err })

	web := a.AwaitMirror(n, "the mirror pod is ready", "default", "web", harness.PodReady)
	if web.Annotations["kubernetes.io/config.mirror"] == "" || len(web.OwnerReferences) != 1 ||
		web.OwnerReferences[0].Kind != "Node" {
		t.Errorf("mirror: %v %v", web.Annotations, web.OwnerReferences)
	}
	if local := n.AwaitReady("web").Status; web.Status.PodIP == "" || web.Status.PodIP != local.PodIP ||
		web.Status.ContainerStatuses[0].ContainerID != local.ContainerStatuses[0].ContainerID {
		t.Errorf("the mirror pod has %v, the daemon %v", web.Status, local)
	}
	local := a.AwaitMirror(n, "the mirror pod of a pod with local objects", "default", "local", harness.PodReady)
	if left := local.Annotations["podstead.io/left-out-of-mirror"]; left != "spec.containers[main].env[COLOR]" {
		t.Errorf("left out: %q", left)
	}

	n.Await("the pod's events are in the API", func() error {
		out, err := a.Kubectl("describe", "pod", n.PodName("web"))
		if err == nil && !strings.Contains(out, "Started container main") {
			err = errors.New(out)
		}
		return err
	})

	// A deleted mirror pod is created again, and the pod keeps running.
	a.Must("delete", "pod", n.PodName("web"), "--wait=false")
	again := a.AwaitMirror(n, "a new mirror pod", "default", "web", func(p *v1.Pod) error {
		if p.UID == web.UID {
			return errors.New("still the previous instance")
		}
		return harness.PodReady(p)
	})

	// A pod whose namespace does not exist in the cluster runs, and an event reports why it has
	// no mirror pod.
	n.WriteManifest("orphan.yaml", mirroredPod("name: orphan, namespace: nowhere", ""))
	n.AwaitEvent("orphan", "FailedMirror", `namespaces "nowhere" not found`)
	a.Must("create", "namespace", "nowhere")
	a.AwaitMirror(n, "it has a mirror pod once the namespace exists", "nowhere", "orphan", harness.PodReady)

	// Without an API server all pods keep running; their status is reported later.
	c.KillAPI()
	n.WriteManifest("web.yaml", mirroredPod("name: web", "{name: REV, value: two}"))
	started = n.AwaitOther("web", started)
	n.RemoveManifest("orphan.yaml")
	n.AwaitGone("orphan")
	if err := c.StartAPI(ctx); err != nil {
		t.Fatal(err)
	}
	a.AwaitMirror(n, "the mirror pod of the new revision", "default", "web", func(p *v1.Pod) error {
		if p.UID == again.UID || p.Spec.Containers[0].Env[0].Value != "two" {
			return errors.New("still the previous instance")
		}
		return harness.PodReady(p)
	})
	a.AwaitMirrorGone(n, "nowhere", "orphan")

	// A restarted daemon removes the mirror pod of a manifest that was removed meanwhile.
	n.Kill()
	n.RemoveManifest("local.yaml")
	n.MustStart()
	a.AwaitMirrorGone(n, "default", "local")

	// The node object is deleted; then the cluster loses all data.
	a.Must("delete", "node", n.Name, "--wait=false")
	awaitNode(a, n)
	a.AwaitMirror(n, "a mirror pod of the new node object", "default", "web", harness.PodReady)
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
	awaitNode(a, n)
	a.AwaitMirror(n, "a mirror pod in the new cluster", "default", "web", harness.PodReady)
	n.Await("the lease is renewed", func() error {
		renewed, err := lease()
		if err == nil && !renewed.After(first) {
			err = errors.New("not yet")
		}
		return err
	})
	// The node leaves the cluster. A node has no right to delete its own object.
	n.CLI(0, []string{"removed from its cluster", "kubectl delete node " + n.Name}, "cluster", "leave")
	if out, err := a.Kubectl("get", "pods,leases", "-A", "-o", "name"); err != nil || strings.Contains(out, n.Name) {
		t.Errorf("the node object still exists: %s %v", out, err)
	}
	a.Must("delete", "node", n.Name)
	n.MustStillRun("web", started)
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
func awaitNode(a *harness.Admin, n *harness.Node) {
	n.T.Helper()
	n.Await("the node is registered", func() error {
		node := &v1.Node{}
		if err := a.Get(node, "node", n.Name); err != nil {
			return err
		}
		taint := v1.Taint{Key: "only", Value: "edge", Effect: v1.TaintEffectNoSchedule}
		found := false
		for _, have := range node.Spec.Taints {
			found = found || have.MatchTaint(&taint)
		}
		if !found || node.Labels["disk"] != "ssd" || node.Spec.ProviderID != "testbed://1" ||
			node.Status.Capacity.Pods().IsZero() {
			return fmt.Errorf("node: %v %v %v", node.Labels, node.Spec, node.Status.Capacity)
		}
		if st := node.Status; len(st.Images) == 0 || len(st.Images[0].Names) == 0 || len(st.RuntimeHandlers) == 0 ||
			st.Features == nil ||
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
