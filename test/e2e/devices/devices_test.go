package devices

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/podstead/podstead/test/e2e/harness"
	"github.com/podstead/podstead/test/testbed"
	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// awaitDeviceHealth waits until the status of the pod shows the health of its device.
func awaitDeviceHealth(n *harness.Node, name string, want v1.ResourceHealthStatus) {
	n.T.Helper()
	awaitHealthOf(n, name, "example.com/serial", want)
}

// awaitHealthOf is awaitDeviceHealth for another resource.
func awaitHealthOf(n *harness.Node, name string, resource v1.ResourceName, want v1.ResourceHealthStatus) {
	n.T.Helper()
	n.AwaitStatus(name, "its device is "+string(want), func(p v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			for _, r := range c.AllocatedResourcesStatus {
				if r.Name == resource && len(r.Resources) == 1 && r.Resources[0].Health == want {
					return nil
				}
			}
		}
		return fmt.Errorf("%+v", p.Status.ContainerStatuses)
	})
}

// A device plugin's devices, mounts and variables are in an unprivileged container. A pod waits
// for devices, with the reason, and starts when there are enough. Containers keep their devices
// over restarts of podstead, of the plugin, and of themselves.
func TestDevicePlugin(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		hostname, err := os.ReadFile("/etc/hostname")
		if err != nil {
			t.Fatal(err)
		}
		n.WriteManifest("one.yaml", harness.DevicePod("one", 1))
		n.MustStart()
		n.AwaitHeld("one", "OutOfexample.com/serial", "no device plugin has registered example.com/serial",
			"requested 1, available 0", n.Root)
		plugin := n.DevicePlugin("a", "b")
		one := n.AwaitRunning("one")
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusHealthy)
		n.AwaitNodeDevices("2")
		// Opening the device needs it in the device cgroup; any other one is not.
		open := func(i harness.Instance) {
			t.Helper()
			n.MustPrintIn(i, "opened a", "sh", "-c", "exec 3<>/dev/serial-a && echo opened $SERIAL")
			n.MustPrintIn(i, strings.TrimSpace(string(hostname)), "cat", "/etc/of-the-host")
			n.MustPrintIn(i, "denied", "sh", "-c", "mknod /tmp/other c 10 235 && (exec 3</tmp/other) 2>/dev/null || echo denied")
		}
		open(one)

		n.WriteManifest("two.yaml", harness.DevicePod("two", 2))
		n.AwaitHeld("two", "OutOfexample.com/serial", "requested 2, available 1")

		n.Restart()
		n.AwaitNodeDevices("2") // the plugin has registered again
		n.MustStillRun("one", one)
		n.AwaitHeld("two", "OutOfexample.com/serial", "requested 2, available 1")
		n.Exec(one, "touch", "/tmp/exit")
		again := n.AwaitOther("one", one)
		open(again)

		plugin.SetHealth("a", false)
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusUnhealthy)
		n.AwaitNodeDevices("1")
		plugin.Stop()
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusUnknown)
		n.AwaitNodeDevices("0")
		n.MustStillRun("one", again)
		n.AwaitHeld("two", "OutOfexample.com/serial", "is not connected")
		// Its container restarts without the plugin.
		n.Exec(again, "touch", "/tmp/exit")
		open(n.AwaitOther("one", again))

		// The next one waits to be asked for its registration.
		n.WatchedDevicePlugin("a", "b")
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusHealthy)
		n.RemoveManifest("one.yaml")
		two := n.AwaitRunning("two")
		n.MustPrintIn(two, "a,b", "sh", "-c", "echo $SERIAL")
	})
}

// A plugin that does not respond keeps only the pods from starting that request its devices. Its devices
// are registered again when the socket was removed, and allocations survive a kill of podstead and a
// truncated checkpoint.
func TestDevicePluginFaults(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		n.MustStart()
		response := make(chan struct{})
		plugin := n.StartDevicePlugin(deviceplugin.Options{Devices: []string{"a", "b"},
			Allocate: func(ctx context.Context, _ []string) (*pluginapi.ContainerAllocateResponse, error) {
				select {
				case <-response:
					return nil, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}})
		n.AwaitNodeDevices("2")
		n.WriteManifest("slow.yaml", harness.DevicePod("slow", 1))
		n.Await("the plugin is asked", func() error {
			if len(plugin.Allocated()) == 0 {
				return errors.New("Allocate was not called")
			}
			return nil
		})
		n.WriteManifest("other.yaml", harness.DevicePod("other", 0))
		n.AwaitRunning("other")
		if all, err := n.Running("slow"); err != nil || len(all) != 0 {
			t.Errorf("the pod runs without its device: %v, %v", all, err)
		}
		close(response)
		slow := n.AwaitRunning("slow")
		device := n.Exec(slow, "sh", "-c", "echo $SERIAL")

		registered := plugin.Registered()
		if err := os.Remove(filepath.Join(n.Root, "device-plugins", "kubelet.sock")); err != nil {
			t.Fatal(err)
		}
		n.Await("the plugin registers again", func() error {
			if plugin.Registered() == registered {
				return errors.New("it has not")
			}
			return nil
		})
		n.AwaitNodeDevices("2")

		n.Kill()
		if err := os.Truncate(filepath.Join(n.Root, "devices.json"), 10); err != nil {
			t.Fatal(err)
		}
		n.MustStart()
		awaitDeviceHealth(n, "slow", v1.ResourceHealthStatusHealthy)
		n.MustStillRun("slow", slow)
		n.Exec(slow, "touch", "/tmp/exit")
		slow = n.AwaitOther("slow", slow)
		n.MustPrintIn(slow, strings.TrimSpace(device), "sh", "-c", "echo $SERIAL")
		n.WriteManifest("next.yaml", harness.DevicePod("next", 1))
		if got := strings.TrimSpace(n.Exec(n.AwaitRunning("next"), "sh", "-c", "echo $SERIAL")); got == strings.TrimSpace(
			device) {
			t.Errorf("two pods have the device %s", got)
		}
	})
}

// podResources returns the devices of the pod's only container from the PodResources API.
func podResources(n *harness.Node, name string) []*podresources.ContainerDevices {
	n.T.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(n.Root, "pod-resources", "kubelet.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		n.T.Fatal(err)
	}
	defer conn.Close()
	got, err := podresources.NewPodResourcesListerClient(conn).Get(n.T.Context(),
		&podresources.GetPodResourcesRequest{PodName: n.PodName(name), PodNamespace: "default"})
	if err != nil {
		n.T.Fatal(err)
	}
	var devices []*podresources.ContainerDevices
	for _, c := range got.PodResources.Containers {
		devices = append(devices, c.Devices...)
	}
	return devices
}

// makeDevice creates a character device, which stands for one that is plugged in.
func makeDevice(t *testing.T, path string, minor uint32) {
	t.Helper()
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(10, minor))); err != nil {
		t.Fatal(err)
	}
}

// loopControl is the minor number of /dev/loop-control (major 10), which the runtime does not
// allow containers by itself, and which every test host can open.
const loopControl = 237

// Devices of the configuration need no plugin: an unprivileged container opens the one that it
// requests, and another container does not. A pod waits for a device that is plugged in later, and
// for one that another pod has; a device that is removed is unhealthy.
func TestLocalDevices(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		dir := t.TempDir()
		file := filepath.Join(dir, "config.yaml")
		config := fmt.Sprintf("apiVersion: podstead.io/v1alpha1\nkind: PodsteadConfiguration\nlocalDevices:\n  "+
			"example.com/serial: {paths: ['%s/tty*']}\n", dir)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Args = append(n.Args, "--config", file)
		n.WriteManifest("one.yaml", harness.DevicePod("one", 1))
		n.MustStart()
		n.AwaitHeld("one", "OutOfexample.com/serial", "requested 1, available 0", "more devices at "+dir)
		device := filepath.Join(dir, "tty0")
		makeDevice(t, device, loopControl)
		one := n.AwaitRunning("one")
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusHealthy)
		n.AwaitNodeDevices("1")
		// Opening the device needs it in the device cgroup; any other one is not.
		n.MustPrintIn(one, "opened "+device, "sh", "-c", "exec 3<>"+device+" && echo opened $EXAMPLE_COM_SERIAL")
		n.MustPrintIn(one, "denied", "sh", "-c",
			"mknod /tmp/other c 10 235 && (exec 3</tmp/other) 2>/dev/null || echo denied")

		if got := podResources(n, "one"); len(got) != 1 || got[0].ResourceName != "example.com/serial" ||
			got[0].DeviceIds[0] != device {
			t.Errorf("PodResources API: %v", got)
		}

		n.WriteManifest("two.yaml", harness.DevicePod("two", 1))
		n.AwaitHeld("two", "OutOfexample.com/serial", "requested 1, available 0", "1 of the healthy in use")
		n.WriteManifest("none.yaml", harness.DevicePod("none", 0))
		none := n.AwaitRunning("none")
		n.MustPrintIn(none, "denied", "sh", "-c",
			fmt.Sprintf("mknod /tmp/other c 10 %d && (exec 3</tmp/other) 2>/dev/null || echo denied", loopControl))

		n.Restart()
		n.AwaitNodeDevices("1")
		n.MustStillRun("one", one)
		if err := os.Remove(device); err != nil {
			t.Fatal(err)
		}
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusUnhealthy)
		n.AwaitNodeDevices("0")
		makeDevice(t, device, loopControl)
		awaitDeviceHealth(n, "one", v1.ResourceHealthStatusHealthy)
		n.RemoveManifest("one.yaml")
		n.MustPrintIn(n.AwaitRunning("two"), device, "sh", "-c", "echo $EXAMPLE_COM_SERIAL")
	})
}

// A container opens a device that it mounts if the pod allows that, only for reading if the mount is
// read-only, and no other one.
func TestAllowDevices(t *testing.T) {
	harness.OnEachRuntime(t, func(t *testing.T, n *harness.Node) {
		dir := t.TempDir()
		makeDevice(t, filepath.Join(dir, "port"), loopControl)
		makeDevice(t, filepath.Join(dir, "other"), 235)
		n.WriteManifest("meter.yaml", fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: meter
  annotations: {podstead.io/allow-devices: port}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: %[1]s
      command: [sleep, "1000"]
      volumeMounts: [{name: port, mountPath: /dev/meter}, {name: other, mountPath: /dev/other}]
    - name: reader
      image: %[1]s
      command: [sleep, "1000"]
      volumeMounts: [{name: port, mountPath: /dev/meter, readOnly: true}]
  volumes:
    - {name: port, hostPath: {path: %[2]s/port, type: CharDevice}}
    - {name: other, hostPath: {path: %[2]s/other, type: CharDevice}}
`, testbed.BusyboxImage, dir))
		n.MustStart()
		open := func(i harness.Instance, how, path, want string) {
			t.Helper()
			n.MustPrintIn(i, want, "sh", "-c", fmt.Sprintf("(exec 3%s%s) 2>/dev/null && echo opened || echo denied", how, path))
		}
		main := n.AwaitRunning("meter")
		open(main, "<>", "/dev/meter", "opened")
		open(main, "<", "/dev/other", "denied")
		reader := n.AwaitContainer("meter", "reader")
		open(reader, "<", "/dev/meter", "opened")
		open(reader, "<>", "/dev/meter", "denied")
	})
}
