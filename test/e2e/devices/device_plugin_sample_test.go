package devices

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
)

// samplePlugin is the resource of Kubernetes' sample device plugin.
const samplePlugin = "example.com/resource"

// samplePluginPod returns the manifest of a pod with Kubernetes' sample device plugin, as its
// DaemonSet has it: it registers at the path at which a kubelet has its socket.
func samplePluginPod(n *harness.Node) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: plugin}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: %s
      command: [/plugin]
      env: [{name: PLUGIN_SOCK_DIR, value: /var/lib/kubelet/device-plugins}]
      volumeMounts:
        - {name: plugin, mountPath: /plugin, readOnly: true}
        - {name: sockets, mountPath: /var/lib/kubelet/device-plugins}
        - {name: devices, mountPath: /tmp}
  volumes:
    - {name: plugin, hostPath: {path: %s, type: File}}
    - {name: sockets, hostPath: {path: %s/device-plugins, type: Directory}}
    - {name: devices, hostPath: {path: /tmp, type: Directory}}
`, testbed.BusyboxImage, testbed.SampleDevicePlugin(), n.Root)
}

// Kubernetes' sample device plugin, as a static pod, registers and allocates to a static pod. What
// runs keeps its device while the plugin dies and comes back, and over restarts of podstead and of
// the runtime; the resource can be allocated again after each of them.
func TestSampleDevicePlugin(t *testing.T) {
	harness.OnEachPrivateRuntime(t, func(t *testing.T, n *harness.Node) {
		t.Cleanup(func() { removeSampleDevices(t) })
		n.WriteManifest("plugin.yaml", samplePluginPod(n))
		n.WriteManifest("one.yaml", harness.ResourcePod("one", samplePlugin, 1))
		n.MustStart()
		one := n.AwaitRunning("one")
		// The plugin mounts a file for each device.
		n.MustPrintIn(one, "1", "sh", "-c", "ls /tmp | grep -c '^Dev-[12]$'")
		awaitHealth := func(want v1.ResourceHealthStatus) { t.Helper(); awaitHealthOf(n, "one", samplePlugin, want) }
		// allocate starts a pod with the other device, and ends it.
		allocate := func(name string) {
			t.Helper()
			n.WriteManifest(name+".yaml", harness.ResourcePod(name, samplePlugin, 1))
			n.MustPrintIn(n.AwaitRunning(name), "1", "sh", "-c", "ls /tmp | grep -c '^Dev-[12]$'")
			n.RemoveManifest(name + ".yaml")
			n.AwaitGone(name)
		}
		awaitHealth(v1.ResourceHealthStatusHealthy)
		n.AwaitNodeResource(samplePlugin, "2")
		n.WriteManifest("many.yaml", harness.ResourcePod("many", samplePlugin, 2))
		n.AwaitHeld("many", "OutOf"+samplePlugin, "requested 2, available 1")
		n.RemoveManifest("many.yaml")

		n.RemoveManifest("plugin.yaml")
		awaitHealth(v1.ResourceHealthStatusUnknown)
		n.WriteManifest("waits.yaml", harness.ResourcePod("waits", samplePlugin, 1))
		n.AwaitHeld("waits", "OutOf"+samplePlugin, "is not connected")
		n.WriteManifest("plugin.yaml", samplePluginPod(n))
		awaitHealth(v1.ResourceHealthStatusHealthy)
		n.AwaitRunning("waits")
		n.RemoveManifest("waits.yaml")
		n.AwaitGone("waits")

		plugin := n.AwaitRunning("plugin")
		n.Restart()
		awaitHealth(v1.ResourceHealthStatusHealthy) // it has registered again
		n.MustStillRun("plugin", plugin)
		allocate("after-podstead")

		n.Runtime.Kill()
		if err := n.Runtime.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		allocate("after-runtime")
		n.MustStillRun("one", one)
		awaitHealth(v1.ResourceHealthStatusHealthy)
	})
}

// removeSampleDevices removes the files that the sample device plugin creates.
func removeSampleDevices(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/tmp/Dev-1", "/tmp/Dev-2"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}
