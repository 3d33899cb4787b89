package devices

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// The devices that the cluster's scheduler has allocated to a pod are in the containers that name its
// claim, as the driver of dynamic resource allocation prepared them. The driver unprepares them when the
// last pod of the claim has ended: also if podstead was killed, and the pod was deleted meanwhile. A
// driver that does not run or hangs delays only its own pods.
func TestResourceClaims(t *testing.T) {
	t.Parallel()
	n := harness.NewNode(t, harness.SharedRuntime(t, testbed.Containerd24))
	a, driver, start := n.StartWithResourceClaims()
	start()

	// A claim from a template: the container has the device of its request, and no other one.
	a.Create(n.ResourceClaimPod("own", "resourceClaimTemplateName: own", ", request: first"))
	own := n.AwaitRunning("own")
	const shown = "env | grep -cE '^(user_color=red|claim_.*_first=true)$'; env | grep -c '_second=true'; true"
	n.MustPrintIn(own, "2\n0", "sh", "-c", shown)
	n.MustPrintIn(n.AwaitContainer("own", "other"), "0\n0", "sh", "-c", shown)
	got := n.DynamicResources("own")
	if len(got) != 1 || len(got[0].ClaimResources) != 1 || got[0].ClaimResources[0].DriverName != driver.Name ||
		len(got[0].ClaimResources[0].CdiDevices) != 1 {
		t.Errorf("PodResources: %v", got)
	}
	n.AwaitPrepared(driver, 2)

	// A claim that pods share is unprepared after the last of them.
	for _, name := range []string{"one", "two"} {
		a.Create(n.ResourceClaimPod(name, "resourceClaimName: shared", ""))
		n.MustPrintIn(n.AwaitRunning(name), "blue", "sh", "-c", "echo $user_color")
	}
	n.AwaitPrepared(driver, 3)
	a.Must("delete", "pod", n.PodName("one"))
	n.AwaitGone("one")
	n.AwaitPrepared(driver, 3)

	// What runs keeps its devices over a restart of podstead, also if its container restarts.
	two := n.AwaitRunning("two")
	n.Kill()
	a.Must("delete", "pod", n.PodName("own"), "--force", "--grace-period=0")
	n.MustStart()
	n.AwaitGone("own")
	n.AwaitPrepared(driver, 1)
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
	n.AwaitPrepared(driver, 0)

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
	// A driver that was killed leaves its sockets, but not its devices in the cluster.
	awaitSlices("the driver has published its devices", true)
	driver.Kill()
	awaitSlices("the devices of the killed driver are gone from the cluster", false)
	start()
	awaitSlices("the driver is back, and so are its devices", true)

	// A driver that hangs delays its own pods only, and responds later.
	driver.Pause()
	a.Create(n.ResourceClaimPod("late", "resourceClaimName: shared", ""))
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
	a.Create(n.ResourceClaimPod("waits", "resourceClaimName: shared", ""))
	n.AwaitEvent("waits", "FailedPrepareDynamicResources", driver.Name, "is not registered")
	n.AwaitStatus("waits", "it waits for its claim", func(p v1.Pod) error {
		if p.Status.Phase != v1.PodPending || p.Status.Reason != "FailedPrepareDynamicResources" {
			return fmt.Errorf("%s, %s: %s", p.Status.Phase, p.Status.Reason, p.Status.Message)
		}
		return nil
	})
	awaitSlices("the devices of the driver are gone from the cluster", false)
	start()
	n.MustPrintIn(n.AwaitRunning("waits"), "blue", "sh", "-c", "echo $user_color")
	for _, name := range []string{"late", "waits"} {
		a.Must("delete", "pod", n.PodName(name))
		n.AwaitGone(name) // the driver has forgotten what it prepared before, and so leaves the file
	}
	awaitSlices("the driver has published its devices again", true)
}
