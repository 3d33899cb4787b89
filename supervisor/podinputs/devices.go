package podinputs

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/device"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/volume"
)

// openedDevices returns, in place of the mounts of devices that the pod opens to its containers, the
// device nodes: CRI allows a device in the device cgroup only together with its node. mounts are
// those of c.VolumeMounts.
func openedDevices(pod *v1.Pod, c *v1.Container, mounts []cri.Mount) (others []cri.Mount, nodes []device.Node) {
	for i, mount := range mounts {
		m := &c.VolumeMounts[i]
		if m.SubPath+m.SubPathExpr != "" || !podinfo.OpensDevice(pod, c, m.Name) {
			others = append(others, mount)
			continue
		}
		node := device.Node{HostPath: mount.HostPath, ContainerPath: mount.ContainerPath, Permissions: "rw"}
		if mount.ReadOnly {
			node.Permissions = "r"
		}
		nodes = append(nodes, node)
	}
	return others, nodes
}

// blockDevices returns the device nodes of the block volumes of a container, with the
// permissions that a kubelet gives.
func blockDevices(c *v1.Container, volumes map[string]volume.Mounted) (nodes []device.Node, err error) {
	for i := range c.VolumeDevices {
		d := &c.VolumeDevices[i]
		vol, ok := volumes[d.Name]
		if !ok || !vol.Device {
			return nil, fmt.Errorf("volumeDevices[%d]: the pod has no block volume %q", i, d.Name)
		}
		node := device.Node{HostPath: vol.Path, ContainerPath: d.DevicePath, Permissions: "mrw"}
		if vol.ReadOnly {
			node.Permissions = "r"
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}
