package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podstead/podstead/test/testbed"
	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// deviceSource is a device of the host that the runtime does not allow containers by itself.
const deviceSource = "/dev/loop-control"

// DevicePod returns the manifest of a pod whose unprivileged container requests devices, and
// exits when /out/exit exists.
func DevicePod(name string, count int) string { return ResourcePod(name, "example.com/serial", count) }

// ResourcePod is DevicePod for another resource.
func ResourcePod(name, resource string, count int) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: main
      image: %s
      command: [sh, -c, "while ! [ -e /tmp/exit ]; do sleep 0.1; done"]
      resources: {limits: {%s: %d}}
`, name, testbed.BusyboxImage, resource, count)
}

// DevicePlugin starts a device plugin that registers with the node.
func (n *Node) DevicePlugin(devices ...string) *deviceplugin.Plugin {
	n.T.Helper()
	return n.StartDevicePlugin(deviceplugin.Options{Devices: devices})
}

// WatchedDevicePlugin starts a device plugin that the plugin watcher of the node finds.
func (n *Node) WatchedDevicePlugin(devices ...string) *deviceplugin.Plugin {
	n.T.Helper()
	return n.StartDevicePlugin(deviceplugin.Options{Registry: filepath.Join(n.Root, "plugins_registry"), Devices: devices})
}

func (n *Node) StartDevicePlugin(o deviceplugin.Options) *deviceplugin.Plugin {
	n.T.Helper()
	p, err := deviceplugin.Start(deviceplugin.Options{
		Registry: o.Registry, Dir: filepath.Join(n.Root, "device-plugins"), Resource: "example.com/serial",
		Devices: o.Devices,
		Allocate: func(ctx context.Context, ids []string) (*pluginapi.ContainerAllocateResponse, error) {
			if o.Allocate != nil {
				if response, err := o.Allocate(ctx, ids); err != nil {
					return response, err
				}
			}
			response := &pluginapi.ContainerAllocateResponse{
				Envs:   map[string]string{"SERIAL": strings.Join(ids, ",")},
				Mounts: []*pluginapi.Mount{{HostPath: "/etc/hostname", ContainerPath: "/etc/of-the-host", ReadOnly: true}},
			}
			for _, id := range ids {
				response.Devices = append(response.Devices,
					&pluginapi.DeviceSpec{HostPath: deviceSource, ContainerPath: "/dev/serial-" + id, Permissions: "rw"})
			}
			return response, nil
		},
	})
	if err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(p.Stop)
	return p
}

// AwaitNodeDevices waits until the node shows this number of allocatable devices.
func (n *Node) AwaitNodeDevices(want string) {
	n.T.Helper()
	n.AwaitNodeResource("example.com/serial", want)
}

// AwaitNodeResource is AwaitNodeDevices for another resource.
func (n *Node) AwaitNodeResource(resource v1.ResourceName, want string) {
	n.T.Helper()
	n.Await("the node has "+want+" devices", func() error {
		body, err := n.Get(n.T.Context(), "/api/v1/nodes/"+n.Name)
		if err != nil {
			return err
		}
		var shown v1.Node
		if err := json.Unmarshal(body, &shown); err != nil {
			return err
		}
		q := shown.Status.Allocatable[resource]
		if q.String() != want {
			return fmt.Errorf("allocatable %v", shown.Status.Allocatable)
		}
		return nil
	})
}
