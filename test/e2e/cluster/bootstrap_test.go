package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/image"
	"github.com/podstead/podstead/test/testbed"
)

// controlPlane is a machine whose control plane runs as static pods of podstead.
type controlPlane struct {
	*harness.Node
	*harness.Admin
	manifests map[string]string
}

// slowTimeout bounds the start of an API server on a busy machine.
const slowTimeout = 10 * time.Minute

// newControlPlane returns a machine with the files that kubeadm creates before the kubelet
// starts, and a registry with the images of the examples and of a later release.
func newControlPlane(t *testing.T, kind testbed.Kind) *controlPlane {
	t.Helper()
	n := harness.NewNode(t, harness.SharedRuntime(t, kind))
	m, err := testbed.NewControlPlane(n.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if logs, _ := filepath.Glob(n.PodLogs + "/kube-system_kube-apiserver*/*/*.log"); t.Failed() && len(logs) > 0 {
			t.Logf("end of an API server's log:\n%s", harness.LastLines(logs[len(logs)-1], 20))
		}
		n.End()
		n.RemovePods() // They use the machine's directories.
		if err := m.Remove(); err != nil {
			t.Error(err)
		}
	})
	n.Manifests = m.Manifests
	// The kubelet configuration of kubeadm: its config file and the flags of
	// kubeadm-flags.env.
	n.Args = append(n.Args, "--seccomp-default", "--kubeconfig", m.Kubelet, "--config",
		filepath.Join(testbed.SourceRoot(), "config/testdata/kubeadm.yaml"),
		"--node-ip", "192.0.2.10", "--register-with-taints", "node-role.kubernetes.io/control-plane:NoSchedule", "--port",
		fmt.Sprint(harness.HostPort()))
	c := &controlPlane{Node: n, Admin: &harness.Admin{T: t, Config: m.Admin}, manifests: map[string]string{}}
	for name, newImage := range map[string]func() (image.Image, error){"etcd": testbed.EtcdImage,
		"kube-apiserver": testbed.KubeAPIServerImage} {
		data, err := os.ReadFile(filepath.Join(testbed.SourceRoot(), "examples/control-plane", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		// The API server waits for etcd, whose upgrade takes minutes on a busy machine.
		c.manifests[name] = strings.Replace(string(data), "failureThreshold: 8\n", "failureThreshold: 100\n", 1)
		img, err := newImage()
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range []string{c.image(name), c.image(name) + "-next"} {
			if err := harness.Registry.Push(ref, img); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// image returns the image in the manifest of a component.
func (c *controlPlane) image(name string) string {
	_, rest, _ := strings.Cut(c.manifests[name], "image: ")
	ref, _, _ := strings.Cut(rest, "\n")
	return ref
}

// awaitOther waits until an instance of a component other than old runs and returns it.
func (c *controlPlane) awaitOther(name string, old harness.Instance) harness.Instance {
	c.Node.T.Helper()
	var now harness.Instance
	c.Await("a new instance of "+name+" runs", func() error {
		found, err := c.Running(name)
		if now = found[name]; err == nil && (now.ID == "" || now.ID == old.ID) {
			err = fmt.Errorf("running: %v", found)
		}
		return err
	}, slowTimeout)
	return now
}

// mustStillRun fails the test unless the same instance of a component still runs.
func (c *controlPlane) mustStillRun(name string, want harness.Instance) {
	c.Node.T.Helper()
	found, err := c.Running(name)
	if err != nil {
		c.Node.T.Fatal(err)
	}
	if found[name] != want {
		c.Node.T.Fatalf("%s runs as %+v, want the same instance as before, %+v", name, found[name], want)
	}
}

// awaitMirror waits until the mirror pod of a component has the ID of the running instance, in
// a mirror pod other than before.
func (c *controlPlane) awaitMirror(name string, running harness.Instance, before *v1.Pod) *v1.Pod {
	c.Node.T.Helper()
	var pod *v1.Pod
	c.Await("the mirror pod of "+name+" is current", func() error {
		pod = &v1.Pod{}
		if err := c.Get(pod, "pod", "-n", "kube-system", c.PodName(name)); err != nil {
			return err
		}
		if before != nil && pod.UID == before.UID {
			return errors.New("it is the previous mirror")
		}
		if err := harness.PodReady(pod); err != nil {
			return err
		}
		if got := pod.Status.ContainerStatuses[0].ContainerID; got != "containerd://"+running.ID {
			return fmt.Errorf("the mirror pod has container %s, but %s runs", got, running.ID)
		}
		return nil
	}, slowTimeout)
	return pod
}

// awaitNodeReady waits until the node is registered and ready.
func (c *controlPlane) awaitNodeReady() *v1.Node {
	c.Node.T.Helper()
	var n *v1.Node
	c.Await("the node is ready", func() error {
		n = &v1.Node{}
		if err := c.Get(n, "node", c.Name); err != nil {
			return err
		}
		for _, cond := range n.Status.Conditions {
			if cond.Type == v1.NodeReady && cond.Status == v1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("not ready: %v", n.Status.Conditions)
	}, slowTimeout)
	return n
}

// On an empty machine etcd and the API server run as static pods, and the node joins the
// cluster that it hosts. Then both are upgraded while the daemon crashes. A broken edit stops
// nothing.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	for _, kind := range testbed.Kinds() {
		t.Run(string(kind), func(t *testing.T) { // not in parallel: they use ports and directories of the host
			bootstrap(t, newControlPlane(t, kind))
		})
	}
}

func bootstrap(t *testing.T, c *controlPlane) {
	c.WriteManifest("web.yaml", harness.SleepPod("web", "one"))
	for name, manifest := range c.manifests {
		c.WriteManifest(name+".yaml", manifest)
	}
	c.MustStart()
	web := c.AwaitRunning("web")
	etcd, api := c.awaitOther("etcd", harness.Instance{}), c.awaitOther("kube-apiserver", harness.Instance{})
	n := c.awaitNodeReady()
	if !slices.ContainsFunc(n.Spec.Taints,
		func(t v1.Taint) bool { return t.Key == "node-role.kubernetes.io/control-plane" }) {
		t.Errorf("taints: %v", n.Spec.Taints)
	}
	if _, err := version.ParseSemantic(n.Status.NodeInfo.KubeletVersion); err != nil {
		t.Errorf("kubeletVersion: %v", err) // kubeadm would reject upgrades of the cluster
	}
	shownEtcd, shownAPI := c.awaitMirror("etcd", etcd, nil), c.awaitMirror("kube-apiserver", api, nil)
	for _, p := range []*v1.Pod{shownEtcd, shownAPI} {
		if p.Spec.PriorityClassName != "system-node-critical" || p.Spec.Priority == nil || *p.Spec.Priority != 2000001000 ||
			p.Status.HostIP != "192.0.2.10" || p.Status.PodIP != "192.0.2.10" ||
			p.Annotations["podstead.io/left-out-of-mirror"] != "" {
			t.Errorf("%s: class %s, priority %v, addresses %s %s, annotations %v", p.Name, p.Spec.PriorityClassName,
				p.Spec.Priority, p.Status.HostIP, p.Status.PodIP, p.Annotations)
		}
	}
	c.Must("create", "configmap", "-n", "default", "kept", "--from-literal=a=b")

	// An invalid edit stops nothing.
	c.WriteManifest("kube-apiserver.yaml",
		strings.Replace(c.manifests["kube-apiserver"], "hostNetwork: true", "hostNetwork: yes please", 1))
	c.AwaitManifestError("kube-apiserver.yaml", "hostNetwork")
	c.mustStillRun("kube-apiserver", api)

	// The API server is upgraded. The daemon crashes while the old instance terminates and
	// again while the new one starts.
	next := func(name string) string {
		return strings.Replace(c.manifests[name], c.image(name), c.image(name)+"-next", 1)
	}
	c.WriteManifest("kube-apiserver.yaml",
		strings.Replace(next("kube-apiserver"), "- --allow-privileged=true\n",
			"- --allow-privileged=true\n        - --max-requests-inflight=300\n", 1))
	c.Await("the previous API server ends", func() error {
		if harness.ProcessExists(api.Pid) {
			return errors.New("it still runs")
		}
		return nil
	}, slowTimeout)
	c.Restart()
	api = c.awaitOther("kube-apiserver", api)
	c.Restart()
	if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", api.Pid)); err != nil ||
		!strings.Contains(string(args), "--max-requests-inflight=300") {
		t.Errorf("the new API server runs as %q, %v", args, err)
	}
	shownAPI = c.awaitMirror("kube-apiserver", api, shownAPI)
	if got := shownAPI.Spec.Containers[0].Image; got != c.image("kube-apiserver")+"-next" {
		t.Errorf("the mirror pod has the image %s", got)
	}
	c.mustStillRun("etcd", etcd)
	if again := c.awaitMirror("etcd", etcd, nil); again.UID != shownEtcd.UID {
		t.Error("the mirror of etcd was replaced with that of the API server")
	}

	// Then etcd is upgraded while the API server runs.
	c.WriteManifest("etcd.yaml", next("etcd"))
	etcd = c.awaitOther("etcd", etcd)
	c.awaitMirror("etcd", etcd, shownEtcd)
	c.mustStillRun("kube-apiserver", api)
	if now := c.awaitNodeReady(); now.UID != n.UID {
		t.Error("the node object changed: etcd lost its data")
	}
	c.Must("get", "configmap", "-n", "default", "kept")

	// A restarted daemon takes over all pods.
	c.Restart()
	c.Must("delete", "pod", "-n", "kube-system", c.PodName("etcd"), "--wait=false")
	c.awaitMirror("etcd", etcd, nil)
	c.mustStillRun("etcd", etcd)
	c.mustStillRun("kube-apiserver", api)
	c.Node.MustStillRun("web", web)
	// A daemon that dies between the creation and the start of a container creates another one
	// with the next restart number.
	for name, first := range map[string]harness.Instance{"etcd": etcd, "kube-apiserver": api} {
		if p := c.AwaitReady(name); p.Status.ContainerStatuses[0].RestartCount != int32(first.Attempt) {
			t.Errorf("%s was restarted: number %d, first seen as %d", name, p.Status.ContainerStatuses[0].RestartCount,
				first.Attempt)
		}
	}
}
