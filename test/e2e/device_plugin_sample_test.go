package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/test/testbed"
)

// samplePlugin is the resource of Kubernetes' sample device plugin.
const samplePlugin = "example.com/resource"

// samplePluginPod returns the manifest of a pod with Kubernetes' sample device plugin, as its
// DaemonSet has it: it registers at the path at which a kubelet has its socket.
func (n *node) samplePluginPod() string {
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
	onEachPrivateRuntime(t, func(t *testing.T, n *node) {
		t.Cleanup(func() { removeSampleDevices(t) })
		n.writeManifest("plugin.yaml", n.samplePluginPod())
		n.writeManifest("one.yaml", resourcePod("one", samplePlugin, 1))
		n.start()
		one := n.awaitRunning("one")
		// The plugin mounts a file for each device.
		n.mustPrintIn(one, "1", "sh", "-c", "ls /tmp | grep -c '^Dev-[12]$'")
		awaitHealth := func(want v1.ResourceHealthStatus) { t.Helper(); n.awaitHealthOf("one", samplePlugin, want) }
		// allocate starts a pod with the other device, and ends it.
		allocate := func(name string) {
			t.Helper()
			n.writeManifest(name+".yaml", resourcePod(name, samplePlugin, 1))
			n.mustPrintIn(n.awaitRunning(name), "1", "sh", "-c", "ls /tmp | grep -c '^Dev-[12]$'")
			n.removeManifest(name + ".yaml")
			n.awaitGone(name)
		}
		awaitHealth(v1.ResourceHealthStatusHealthy)
		n.awaitNodeResource(samplePlugin, "2")
		n.writeManifest("many.yaml", resourcePod("many", samplePlugin, 2))
		n.awaitHeld("many", "OutOf"+samplePlugin, "requested 2, available 1")
		n.removeManifest("many.yaml")

		n.removeManifest("plugin.yaml")
		awaitHealth(v1.ResourceHealthStatusUnknown)
		n.writeManifest("waits.yaml", resourcePod("waits", samplePlugin, 1))
		n.awaitHeld("waits", "OutOf"+samplePlugin, "is not connected")
		n.writeManifest("plugin.yaml", n.samplePluginPod())
		awaitHealth(v1.ResourceHealthStatusHealthy)
		n.awaitRunning("waits")
		n.removeManifest("waits.yaml")
		n.awaitGone("waits")

		plugin := n.awaitRunning("plugin")
		n.restart()
		awaitHealth(v1.ResourceHealthStatusHealthy) // it has registered again
		n.mustStillRun("plugin", plugin)
		allocate("after-podstead")

		n.rt.Kill()
		if err := n.rt.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		allocate("after-runtime")
		n.mustStillRun("one", one)
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
