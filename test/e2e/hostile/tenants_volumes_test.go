package hostile

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// metric returns the sum of the series of a metric that contain a text.
func metric(t *testing.T, text, name, labels string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(line, "#") || !strings.Contains(series, labels) ||
			series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		var n float64
		if _, err := fmt.Sscan(value, &n); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		sum += n
	}
	return sum
}

// goroutines returns how many goroutines the daemon has.
func (n *hostileNode) goroutines(ctx context.Context) float64 {
	n.T.Helper()
	text, err := n.Get(ctx, "/metrics")
	if err != nil {
		n.T.Fatal(err)
	}
	return metric(n.T, string(text), "go_goroutines", "")
}

// manyDrivers creates a pod with 3,000 inline volumes, each of another CSI driver, and pods with as many drivers as the
// namespace may name.
func manyDrivers(n *hostileNode, a *harness.Admin) {
	const attack, pods, each = 3000, 5, 150
	before := n.goroutines(n.T.Context())
	create := func(name string, drivers int) {
		volumes := "hostNetwork: true\nvolumes:\n"
		for i := range drivers {
			volumes += fmt.Sprintf("- {name: v%d, csi: {driver: %s-%d.example.com}}\n", i, name, i)
		}
		a.Create(n.ClusterPod(name, testbed.BusyboxImage, volumes, ""))
	}
	for i := range pods {
		create(fmt.Sprintf("drivers%d", i), each)
	}
	create("drivers", attack)
	n.AwaitStatus("drivers", "it waits", func(p v1.Pod) error {
		if p.Status.Reason != "TooManyReferences" {
			return fmt.Errorf("%s: %s", p.Status.Reason, p.Status.Message)
		}
		return nil
	})
	if got := n.goroutines(n.T.Context()) - before; got > 200 {
		n.T.Errorf("%v more goroutines", got)
	}
	text, err := a.Kubectl("get", "--raw", "/metrics")
	if err != nil {
		n.T.Fatal(err)
	}
	watches := metric(n.T, text, "apiserver_longrunning_requests", `resource="csidrivers"`)
	if watches < 1 || watches > 3 {
		n.T.Errorf("%v watches of CSIDrivers", watches)
	}
	n.T.Logf("%v watches, %v goroutines before, %v after", watches, before, n.goroutines(n.T.Context()))
	for i := range pods {
		a.Must("delete", "pod", n.PodName(fmt.Sprintf("drivers%d", i)), "--wait=false")
	}
	a.Must("delete", "pod", n.PodName("drivers"), "--wait=false")
}

// largeClaims creates a pod with a hundred claims that are as large as an API server takes, and bound.
func largeClaims(n *hostileNode, a *harness.Admin) {
	const claims, atOnce, modes = 100, 10, 90_000
	repeated := strings.Repeat(`"ReadWriteMany",`, modes) + `"ReadWriteMany"`
	volumes, mounts := "hostNetwork: true\nvolumes:\n", "volumeMounts:\n"
	for first := 0; first < claims; first += atOnce {
		var objects []string
		for i := first; i < first+atOnce; i++ {
			name := fmt.Sprintf("large-claim-%d", i)
			resources := `"resources": {"requests": {"storage": "1Mi"}}`
			objects = append(objects, fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": %q},
"spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": %q},
"claimRef": {"namespace": "default", "name": %[1]q}, "persistentVolumeReclaimPolicy": "Retain"}}`, name, n.T.TempDir()),
				fmt.Sprintf(`{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": %q},
"spec": {"storageClassName": "", "volumeName": %[1]q, %s, "accessModes": [%s]}}`, name, resources, repeated))
			volumes += fmt.Sprintf("- {name: v%d, persistentVolumeClaim: {claimName: %s}}\n", i, name)
			mounts += fmt.Sprintf("- {name: v%d, mountPath: /v%d}\n", i, i)
		}
		a.Create(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(objects, ",") + "]}")
	}
	a.Create(n.ClusterPod("claims", testbed.BusyboxImage, volumes, mounts))
	n.AwaitRunning("claims")
	n.check("large claims, running")
	before := n.AwaitRunning("claims")
	n.Restart()
	n.AwaitReady("claims")
	n.MustStillRun("claims", before)
	n.check("start among large claims")
	a.Must("delete", "pod", n.PodName("claims"), "--wait=false")
}
