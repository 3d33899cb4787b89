package podinputs

import (
	"context"
	"fmt"
	"maps"
	"slices"

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

// addDevices adds what the devices of a container need. As at the kubelet the container's own
// variables take precedence over those of devices.
func (r *Resolver) addDevices(ctx context.Context, pod *v1.Pod, c *v1.Container, in *cri.Inputs) error {
	if r.cfg.Devices == nil {
		return nil
	}
	assigned, err := r.cfg.Devices.Container(ctx, pod, c)
	if err != nil {
		return err
	}
	own := map[string]bool{}
	for _, e := range in.Env {
		own[e.Name] = true
	}
	var env []cri.EnvVar
	for _, name := range slices.Sorted(maps.Keys(assigned.Env)) {
		if !own[name] {
			env = append(env, cri.EnvVar{Name: name, Value: assigned.Env[name]})
		}
	}
	in.Env = append(env, in.Env...)
	mounts := make([]cri.Mount, 0, len(assigned.Mounts)+len(in.Mounts))
	for _, m := range assigned.Mounts {
		mounts = append(mounts, cri.Mount{HostPath: m.HostPath, ContainerPath: m.ContainerPath, ReadOnly: m.ReadOnly})
	}
	in.Mounts = append(mounts, in.Mounts...)
	in.Devices, in.CDIDevices, in.Annotations = append(in.Devices, assigned.Nodes...), assigned.CDI, assigned.Annotations
	return nil
}

// addClaims adds the devices of a container's resource claims.
func (r *Resolver) addClaims(pod *v1.Pod, c *v1.Container, in *cri.Inputs) error {
	if r.cfg.Claims == nil {
		return nil
	}
	names, err := r.cfg.Claims.CDIDevices(pod, c)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !slices.Contains(in.CDIDevices, name) {
			in.CDIDevices = append(slices.Clip(in.CDIDevices), name)
		}
	}
	return nil
}
