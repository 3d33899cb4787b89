package devices

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podstead/podstead/test/e2e/harness"
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

// claimPod returns a pod for the scheduler. Its container main has a request of the claim, and other has
// no claim.
func claimPod(n *harness.Node, name, claim, request string) string {
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

// dynamicResources returns what the PodResources API shows of the claims of a pod's container main.
func dynamicResources(n *harness.Node, name string) []*podresources.DynamicResource {
	n.T.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.Root, "pod-resources", "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.T.Fatal(err)
	}
	defer conn.Close()
	got, err := podresources.NewPodResourcesListerClient(conn).Get(n.T.Context(), &podresources.GetPodResourcesRequest{PodName: n.PodName(name), PodNamespace: "default"})
	if err != nil {
		n.T.Fatal(err)
	}
	return got.GetPodResources().GetContainers()[0].GetDynamicResources()
}

// awaitPrepared waits until a number of devices of the driver are prepared.
func awaitPrepared(n *harness.Node, d *testbed.DRADriver, want int) {
	n.T.Helper()
	n.Await(fmt.Sprintf("%d devices are prepared", want), func() error {
		files, err := d.Prepared()
		if err == nil && len(files) != want {
			err = fmt.Errorf("prepared: %q", files)
		}
		return err
	})
}

// The devices that the cluster's scheduler has allocated to a pod are in the containers that name its
// claim, as the driver of dynamic resource allocation prepared them. The driver unprepares them when the
// last pod of the claim has ended: also if podstead was killed, and the pod was deleted meanwhile. A
// driver that does not run or hangs delays only its own pods.
func TestResourceClaims(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	n.OwnPort()
	c, a, kubeconfig := harness.NewCluster(t.Context(), n)
	n.Args = append(n.Args, "--kubeconfig", kubeconfig)
	driver, err := c.NewDRADriver(n.Node)
	if err != nil {
		t.Fatal(err)
	}
	start := func() {
		t.Helper()
		if err := driver.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(driver.Stop)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of the driver's log:\n%s", driver.Log())
		}
	})
	if err := c.StartController("resourceclaim-controller"); err != nil {
		t.Fatal(err)
	}
	if err := c.StartScheduler(); err != nil {
		t.Fatal(err)
	}
	a.Create("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt}\ndata: {ca.crt: the-root}\n---\n" +
		strings.ReplaceAll(claimObjects, "DRIVER", driver.Name))
	n.MustStart()
	a.AwaitNodeStatus(n, "it is registered", func(*v1.Node) error { return nil })
	start()

	// A claim from a template: the container has the device of its request, and no other one.
	a.Create(claimPod(n, "own", "resourceClaimTemplateName: own", ", request: first"))
	own := n.AwaitRunning("own")
	const shown = "env | grep -cE '^(user_color=red|claim_.*_first=true)$'; env | grep -c '_second=true'; true"
	n.MustPrintIn(own, "2\n0", "sh", "-c", shown)
	n.MustPrintIn(n.AwaitContainer("own", "other"), "0\n0", "sh", "-c", shown)
	got := dynamicResources(n, "own")
	if len(got) != 1 || len(got[0].ClaimResources) != 1 || got[0].ClaimResources[0].DriverName != driver.Name || len(got[0].ClaimResources[0].CdiDevices) != 1 {
		t.Errorf("PodResources: %v", got)
	}
	awaitPrepared(n, driver, 2)

	// A claim that pods share is unprepared after the last of them.
	for _, name := range []string{"one", "two"} {
		a.Create(claimPod(n, name, "resourceClaimName: shared", ""))
		n.MustPrintIn(n.AwaitRunning(name), "blue", "sh", "-c", "echo $user_color")
	}
	awaitPrepared(n, driver, 3)
	a.Must("delete", "pod", n.PodName("one"))
	n.AwaitGone("one")
	awaitPrepared(n, driver, 3)

	// What runs keeps its devices over a restart of podstead, also if its container restarts.
	two := n.AwaitRunning("two")
	n.Kill()
	a.Must("delete", "pod", n.PodName("own"), "--force", "--grace-period=0")
	n.MustStart()
	n.AwaitGone("own")
	awaitPrepared(n, driver, 1)
	n.MustStillRun("two", two)
	n.Exec(two, "kill", "1")
	n.Await("the container has restarted with its device", func() error {
		again := n.AwaitRunning("two")
		if again.ID == two.ID {
			return errors.New("it has not restarted")
		}
		out, err := n.Runtime.CRI.Exec(t.Context(), again.ID, "sh", "-c", "echo $user_color")
		if err == nil && strings.TrimSpace(out) != "blue" {
			err = fmt.Errorf("printed %q", out)
		}
		return err
	})
	a.Must("delete", "pod", n.PodName("two"))
	n.AwaitGone("two")
	awaitPrepared(n, driver, 0)

	// A driver that hangs delays its own pods only, and answers later.
	driver.Pause()
	a.Create(claimPod(n, "late", "resourceClaimName: shared", ""))
	a.Create(n.ClusterPod("plain", testbed.BusyboxImage, "", ""))
	n.AwaitRunning("plain")
	driver.Continue()
	n.MustPrintIn(n.AwaitRunning("late"), "blue", "sh", "-c", "echo $user_color")

	// Without the driver the pod waits, and it starts when the driver registers. The scheduler gives it a
	// claim that is allocated already: it gives no other devices of a driver that does not return.
	driver.Stop()
	n.Await("the driver is deregistered", func() error {
		log, err := os.ReadFile(n.Log())
		if err == nil && !strings.Contains(string(log), "DRA driver deregistered") {
			err = errors.New("not in the log")
		}
		return err
	})
	a.Create(claimPod(n, "waits", "resourceClaimName: shared", ""))
	n.AwaitEvent("waits", "FailedPrepareDynamicResources", driver.Name, "is not registered")
	n.AwaitStatus("waits", "it waits for its claim", func(p v1.Pod) error {
		if p.Status.Phase != v1.PodPending || p.Status.Reason != "FailedPrepareDynamicResources" {
			return fmt.Errorf("%s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
	awaitSlices := func(what string, want bool) {
		t.Helper()
		n.Await(what, func() error {
			var list struct{ Items []struct{} }
			if err := a.Get(&list, "resourceslices"); err != nil || (len(list.Items) > 0) != want {
				return fmt.Errorf("there are %d ResourceSlices (%v)", len(list.Items), err)
			}
			return nil
		})
	}
	awaitSlices("the devices of the driver are gone from the cluster", false)
	start()
	n.MustPrintIn(n.AwaitRunning("waits"), "blue", "sh", "-c", "echo $user_color")
	for _, name := range []string{"late", "waits"} {
		a.Must("delete", "pod", n.PodName(name))
		n.AwaitGone(name) // the driver has forgotten what it prepared before, and so leaves the file
	}
	awaitSlices("the driver has published its devices again", true)
}
