package cluster

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// In a cloud, a cloud controller manager initializes the node and the controllers of the cluster
// assign the addresses of its pods: podstead leaves both to them, also after a restart, and
// passes the addresses to the runtime. The test is the cloud controller manager.
func TestCloudNode(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		// The bridges of the shared runtimes have addresses in 10.211.0.0/16.
		number := 80 + slices.Index(testbed.Kinds(), n.Runtime.Kind)
		if err := n.Runtime.UseNetworkTemplate(t.Context(), fmt.Sprintf("pscloud%d", number)); err != nil {
			t.Fatal(err)
		}
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
		if err := os.WriteFile(config, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: "+
			"KubeletConfiguration\nnodeStatusUpdateFrequency: 1s\nnodeStatusReportFrequency: 1s\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Args = append(n.Args, "--kubeconfig", kubeconfig, "--config", config, "--cloud-provider", "external",
			"--register-with-taints", "only=edge:NoSchedule")
		n.MustStart()
		checkUninitialized(n, a)
		a.Must("create", "serviceaccount", "default")
		a.Create(boundPod(n, "web", recordTermination, ""))

		if err := c.StartController("node-ipam-controller", "--allocate-node-cidrs", "--cluster-cidr",
			fmt.Sprintf("10.%d.0.0/16", number)); err != nil {
			t.Fatal(err)
		}
		assigned := a.AwaitNodeStatus(n, "it has a pod CIDR and is ready", func(node *v1.Node) error {
			if node.Spec.PodCIDR == "" || !harness.NodeReady(node) {
				return fmt.Errorf("%v %v", node.Spec, node.Status.Conditions)
			}
			return nil
		})
		checkPodCIDR(n, a, netip.MustParsePrefix(assigned.Spec.PodCIDR))
		checkCloudInitialized(n, a, log)
	})
}

var (
	ownTaint   = v1.Taint{Key: "only", Value: "edge", Effect: v1.TaintEffectNoSchedule}
	cloudTaint = v1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true",
		Effect: v1.TaintEffectNoSchedule}
)

// checkUninitialized checks the node that waits for its cloud controller manager, and for the
// addresses of its pods.
func checkUninitialized(n *harness.Node, a *harness.Admin) {
	node := a.AwaitNodeStatus(n, "it reports that its network is not ready", func(node *v1.Node) error {
		if harness.NodeReady(node) || len(node.Status.Conditions) == 0 ||
			!strings.Contains(fmt.Sprint(node.Status.Conditions), "cni plugin not initialized") {
			return fmt.Errorf("%v", node.Status.Conditions)
		}
		return nil
	})
	if !hasTaints(node, ownTaint, cloudTaint) || node.Spec.ProviderID != "" {
		n.T.Errorf("the node registered with %v", node.Spec)
	}
	if want := []v1.NodeAddress{{Type: v1.NodeHostName, Address: n.Name}}; !slices.Equal(node.Status.Addresses, want) {
		n.T.Errorf("the node registered with addresses %v, want %v", node.Status.Addresses, want)
	}
}

// hasTaints reports whether a node has these taints, in addition to those that the API server sets.
func hasTaints(node *v1.Node, want ...v1.Taint) bool {
	have := slices.DeleteFunc(slices.Clone(node.Spec.Taints),
		func(t v1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	return slices.EqualFunc(have, want, func(a, b v1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value })
}

// checkPodCIDR checks that a pod has an address of the range, seen from inside its container and
// in the API.
func checkPodCIDR(n *harness.Node, a *harness.Admin, assigned netip.Prefix) {
	pod := a.AwaitMirror(n, "the pod is ready", "default", "web", harness.PodReady)
	out := n.Exec(n.AwaitContainer("web", "main"), "ip", "-4", "-o", "address", "show", "dev", "eth0")
	_, rest, _ := strings.Cut(out, "inet ")
	text, _, _ := strings.Cut(rest, " ")
	inside, err := netip.ParsePrefix(text)
	if err != nil {
		n.T.Fatalf("%v: %s", err, out)
	}
	if !assigned.Contains(inside.Addr()) || inside.Bits() != assigned.Bits() ||
		pod.Status.PodIP != inside.Addr().String() {
		n.T.Errorf("the pod CIDR is %s; the container has %s, the status %s", assigned, inside, pod.Status.PodIP)
	}
}

// checkCloudInitialized initializes the node as a cloud controller manager, and checks that
// neither reports of the node nor a restart of podstead change what it has set.
func checkCloudInitialized(n *harness.Node, a *harness.Admin, log *audit) {
	addresses := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.5"},
		{Type: v1.NodeExternalIP, Address: "198.51.100.7"}, {Type: v1.NodeHostName, Address: n.Name},
		{Type: v1.NodeInternalDNS, Address: "n5.cloud.invalid"}}
	status, err := json.Marshal(map[string]any{"status": v1.NodeStatus{Addresses: addresses}})
	if err != nil {
		n.T.Fatal(err)
	}
	a.Must("patch", "node", n.Name, "--type=merge", "-p",
		`{"spec": {"providerID": "cloud://zone/n5"}, "metadata": {"labels": {"topology.kubernetes.io/zone": "zone"}}}`)
	a.Must("patch", "node", n.Name, "--subresource=status", "--type=merge", "-p", string(status))
	a.Must("taint", "node", n.Name, cloudTaint.Key+"-")
	check := func(when string) {
		n.T.Helper()
		begin := time.Now()
		n.Await("several reports of the node "+when, func() error {
			all, err := log.requests()
			if err != nil {
				return err
			}
			reports := 0
			for _, e := range all {
				if e.String() == "patch nodes status "+n.Name && e.RequestReceivedTimestamp.After(begin) {
					reports++
				}
			}
			if reports < 3 {
				return fmt.Errorf("%d reports", reports)
			}
			return nil
		})
		// A runtime that is slow makes it not ready for a while.
		node := a.AwaitNodeStatus(n, when+" it is ready", func(node *v1.Node) error {
			if !harness.NodeReady(node) {
				return fmt.Errorf("%v", node.Status.Conditions)
			}
			return nil
		})
		if !hasTaints(node, ownTaint) || node.Spec.ProviderID != "cloud://zone/n5" ||
			node.Labels["topology.kubernetes.io/zone"] != "zone" || !slices.Equal(node.Status.Addresses, addresses) {
			n.T.Errorf("%s the node is %v %v %v", when, node.Labels, node.Spec, node.Status.Addresses)
		}
	}
	check("after the cloud controller manager initialized it")
	before := n.AwaitContainer("web", "main")
	n.Restart()
	check("after a restart of podstead")
	if after := n.AwaitContainer("web", "main"); after != before {
		n.T.Errorf("the container is %v, was %v", after, before)
	}
}
