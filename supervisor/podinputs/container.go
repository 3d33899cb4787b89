package podinputs

import (
	"context"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/volume"
)

// ContainerInputs resolves what one container needs, immediately before it is
// created: only then are the pod's IPs known.
type ContainerInputs func(ctx context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error)

// Prepare sets up the pod's volumes and returns the function that resolves the
// inputs of its containers, to which the resources of the node contribute. If the error, which names the volumes that
// failed, is not nil, the function still works for containers that mount none of these.
func (r *Resolver) Prepare(ctx context.Context, pod *v1.Pod, resources Contributor) (ContainerInputs, error) {
	// Looked up first: an object that changes from here on counts as changed.
	revisions := r.objectRevisions(pod)
	volumes, fault := r.setupVolumes(ctx, pod)
	return func(ctx context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error) {
		if fault != nil && !hasVolumes(c, volumes) {
			return cri.Inputs{}, fault
		}
		env, err := resolveEnv(c, r.envInput(pod, podIPs, volumes))
		if err != nil {
			return cri.Inputs{}, err
		}
		mounts, err := r.resolveMounts(pod, c, volumes, env)
		if err != nil {
			return cri.Inputs{}, err
		}
		mounts, nodes := openedDevices(pod, c, mounts)
		blocks, err := blockDevices(c, volumes)
		if err != nil {
			return cri.Inputs{}, err
		}
		if mounts, err = r.withHostsFile(mounts, pod, podIPs); err != nil {
			return cri.Inputs{}, err
		}
		in := cri.Inputs{Env: env, Mounts: mounts, Devices: append(nodes, blocks...), Objects: revisions.forContainer(pod, c)}
		if err := resources.Contribute(ctx, pod, c, &in); err != nil {
			return cri.Inputs{}, err
		}
		if in.TerminationMessageHost, err = r.terminationMessageFile(pod, c); err != nil {
			return cri.Inputs{}, err
		}
		in.Groups = volumeGroups(pod, volumes)
		return in, nil
	}, fault
}

// hasVolumes reports whether all volumes that a container uses are set up.
func hasVolumes(c *v1.Container, volumes map[string]volume.Mounted) bool {
	for i := range c.VolumeMounts {
		if _, made := volumes[c.VolumeMounts[i].Name]; !made {
			return false
		}
	}
	for i := range c.VolumeDevices {
		if _, made := volumes[c.VolumeDevices[i].Name]; !made {
			return false
		}
	}
	return true
}

// envInput returns the current values from which the environment variables of the
// pod's containers are made.
func (r *Resolver) envInput(pod *v1.Pod, podIPs []string, volumes map[string]volume.Mounted) envInput {
	return envInput{
		pod: pod, objects: r.objectsOf(pod), services: r.services(pod), allocatable: r.cfg.Allocatable, hostIPs: r.hostIPs(),
		podIPs:   podIPs,
		openFile: func(volume, path string) (io.ReadCloser, error) { return openBelow(volumes[volume].Path, path) },
	}
}
