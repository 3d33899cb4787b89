package harness

import (
	"fmt"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podstead/podstead/test/testbed"
)

// claimObjects are the class of a driver's devices, a template of claims and a claim that pods share.
const claimObjects = `apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: edge}
spec:
  selectors: [{cel: {expression: 'device.driver == "DRIVER"'}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: own}
spec:
  spec:
    devices:
      requests:
      - {name: first, exactly: {deviceClassName: edge}}
      - {name: second, exactly: {deviceClassName: edge}}
      config: [{requests: [first], opaque: {driver: DRIVER, parameters: {color: red}}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: shared}
spec:
  devices:
    requests: [{name: one, exactly: {deviceClassName: edge}}]
    config: [{opaque: {driver: DRIVER, parameters: {color: blue}}}]
`

// ResourceClaimPod returns a pod for the scheduler. Its container main has a request of the claim, and other has
// no claim.
func (n *Node) ResourceClaimPod(name, claim, request string) string {
	const script = `command: [sh, -c, "trap exit TERM; while :; do sleep 0.2; done"]`
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}] # no controller removes the taint of a node that is not ready yet
  resourceClaims: [{name: device, %s}]
  containers:
  - {name: main, image: %s, %s, resources: {claims: [{name: device%s}]}}
  - {name: other, image: %s, %s}
`, n.PodName(name), claim, testbed.BusyboxImage, script, request, testbed.BusyboxImage, script)
}

// DynamicResources returns what the PodResources API shows of the claims of a pod's container main.
func (n *Node) DynamicResources(name string) []*podresources.DynamicResource {
	n.T.Helper()
	found, err := n.FindDynamicResources(name)
	if err != nil {
		n.T.Fatal(err)
	}
	return found
}

// FindDynamicResources is DynamicResources with an error, for a daemon that has just started.
func (n *Node) FindDynamicResources(name string) ([]*podresources.DynamicResource, error) {
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.Root, "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	got, err := podresources.NewPodResourcesListerClient(conn).Get(n.T.Context(),
		&podresources.GetPodResourcesRequest{PodName: n.PodName(name), PodNamespace: "default"})
	if err != nil {
		return nil, err
	}
	return got.GetPodResources().GetContainers()[0].GetDynamicResources(), nil
}

// AwaitPrepared waits until a number of devices of the driver are prepared.
func (n *Node) AwaitPrepared(d *testbed.DRADriver, want int) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%d devices are prepared", want), func() error {
		files, err := d.Prepared()
		if err == nil && len(files) != want {
			err = fmt.Errorf("prepared: %q", files)
		}
		return err
	})
}

// StartWithResourceClaims starts the node in a cluster with claimObjects. It returns the cluster's administrator and a
// driver of dynamic resource allocation, which start starts.
func (n *Node) StartWithResourceClaims() (a *Admin, driver *testbed.DRADriver, start func()) {
	n.T.Helper()
	n.OwnPort()
	c, a, kubeconfig := NewCluster(n.T.Context(), n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	driver, err := c.NewDRADriver(n.Node)
	if err != nil {
		n.T.Fatal(err)
	}
	start = func() {
		n.T.Helper()
		if err := driver.Start(); err != nil {
			n.T.Fatal(err)
		}
		n.T.Cleanup(driver.Stop)
	}
	n.T.Cleanup(func() {
		if n.T.Failed() {
			n.T.Logf("end of the driver's log:\n%s", driver.Log())
		}
	})
	if err := c.StartController("resourceclaim-controller"); err != nil {
		n.T.Fatal(err)
	}
	if err := c.StartScheduler(); err != nil {
		n.T.Fatal(err)
	}
	a.Create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n---\napiVersion: v1\nkind: " +
		"ConfigMap\nmetadata: {name: kube-root-ca.crt}\ndata: {ca.crt: the-root}\n---\n" +
		strings.ReplaceAll(claimObjects, "DRIVER", driver.Name))
	n.MustStart()
	a.AwaitNodeStatus(n, "it is registered", func(*v1.Node) error { return nil })
	return a, driver, start
}
