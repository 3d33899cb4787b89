package podinputs

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

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
	in.Devices, in.CDIDevices, in.Annotations = assigned.Nodes, assigned.CDI, assigned.Annotations
	return nil
}
