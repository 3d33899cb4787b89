package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// Admin is a client of a cluster's API server with administrator rights.
type Admin struct {
	T      *testing.T
	Config string
}

// Kubectl runs kubectl as the administrator and returns its output.
func (a *Admin) Kubectl(args ...string) (string, error) {
	cmd := exec.CommandContext(a.T.Context(), testbed.Kubectl(), append([]string{"--kubeconfig", a.Config}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Must runs kubectl as the administrator and fails the test unless it succeeds.
func (a *Admin) Must(args ...string) {
	a.T.Helper()
	if _, err := a.Kubectl(args...); err != nil {
		a.T.Fatal(err)
	}
}

// Get reads an object into the value.
func (a *Admin) Get(into any, args ...string) error {
	out, err := a.Kubectl(append([]string{"get", "-o", "json"}, args...)...)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(out), into)
}

// AwaitMirror waits until a pod's mirror pod satisfies check.
func (a *Admin) AwaitMirror(n *Node, what, namespace, name string, check func(*v1.Pod) error) *v1.Pod {
	n.T.Helper()
	var pod *v1.Pod
	n.Await(what, func() error {
		pod = &v1.Pod{}
		if err := a.Get(pod, "pod", "-n", namespace, n.PodName(name)); err != nil {
			return err
		}
		return check(pod)
	})
	return pod
}

// AwaitMirrorGone waits until a mirror pod is removed.
func (a *Admin) AwaitMirrorGone(n *Node, namespace, name string) {
	n.T.Helper()
	n.Await("the mirror pod is removed", func() error {
		_, err := a.Kubectl("get", "pod", "-n", namespace, n.PodName(name))
		switch {
		case err == nil:
			return errors.New("it still exists")
		case !strings.Contains(err.Error(), "NotFound"):
			return err
		}
		return nil
	})
}

// PodReady returns an error unless the pod is ready.
func PodReady(p *v1.Pod) error {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("not ready: %s %v", p.Status.Phase, p.Status.Conditions)
}

// NewCluster starts a cluster for the duration of the test. It returns the cluster, its
// administrator and the kubeconfig of the node.
func NewCluster(ctx context.Context, n *Node) (*testbed.Cluster, *Admin, string) {
	n.T.Helper()
	c, err := testbed.NewCluster(n.Name)
	if err != nil {
		n.T.Fatal(err)
	}
	a, kubeconfig := UseCluster(n, c)
	if err := c.StartAPI(ctx); err != nil {
		n.T.Fatal(err)
	}
	return c, a, kubeconfig
}

// UseCluster stops a cluster at the end of the test. It returns the cluster's administrator
// and the kubeconfig of the node.
func UseCluster(n *Node, c *testbed.Cluster) (*Admin, string) {
	n.T.Helper()
	n.T.Cleanup(func() {
		if n.T.Failed() {
			n.T.Logf("end of the API server's log:\n%s", c.Log())
		}
		if err := c.Stop(); err != nil {
			n.T.Error(err)
		}
	})
	adminConfig, err := c.Kubeconfig("admin", "system:masters")
	if err != nil {
		n.T.Fatal(err)
	}
	kubeconfig, err := c.NodeKubeconfig(n.Name)
	if err != nil {
		n.T.Fatal(err)
	}
	return &Admin{n.T, adminConfig}, kubeconfig
}

// AwaitNodeStatus waits until the Node object satisfies check, and returns it.
func (a *Admin) AwaitNodeStatus(n *Node, what string, check func(*v1.Node) error) *v1.Node {
	n.T.Helper()
	var node *v1.Node
	n.Await("the node: "+what, func() error {
		node = &v1.Node{}
		if err := a.Get(node, "node", n.Name); err != nil {
			return err
		}
		return check(node)
	})
	return node
}

// NodeReady reports whether the node has the condition Ready.
func NodeReady(n *v1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions,
		func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
}

// ClusterPod returns a pod that is bound to the node, with additional fields of the spec and
// of its container.
func (n *Node) ClusterPod(name, image, spec, container string) string {
	indent := func(text, by string) (out string) {
		for line := range strings.Lines(text) {
			out += by + line
		}
		return out
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
%s  containers:
  - name: main
    image: %s
    command: [sh, -c, "trap exit TERM; while :; do sleep 0.2; done"]
%s`, n.PodName(name), n.Name, indent(spec, "  "), image, indent(container, "    "))
}

// Create creates an object in the cluster.
func (a *Admin) Create(text string) {
	a.T.Helper()
	a.Must("create", "-f", a.File(text))
}

// File returns the path of a file with the text.
func (a *Admin) File(text string) string {
	a.T.Helper()
	file := filepath.Join(a.T.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		a.T.Fatal(err)
	}
	return file
}
