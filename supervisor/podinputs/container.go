package podinputs

import (
	"context"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/volume"
)

// ContainerInputs resolves what a container needs when it is about to be created.
type ContainerInputs func(ctx context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error)

// Prepare makes what the pod's containers need on this host. With an error, which
// names the volumes that could not be made, the inputs of containers that mount
// none of those can be had nevertheless.
func (r *Resolver) Prepare(ctx context.Context, pod *v1.Pod) (ContainerInputs, error) {
	// Looked up first: what changes from here on counts as a change.
	revisions := r.objectRevisions(pod)
	volumes, fault := r.setupVolumes(ctx, pod)
	return func(_ context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error) {
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
		if mounts, err = r.withHostsFile(mounts, pod, podIPs); err != nil {
			return cri.Inputs{}, err
		}
		file, err := r.terminationMessageFile(pod, c)
		if err != nil {
			return cri.Inputs{}, err
		}
		return cri.Inputs{Env: env, Mounts: mounts, TerminationMessageHost: file, Objects: revisions.of(pod, c)}, nil
	}, fault
}

// hasVolumes reports whether all volumes that a container mounts were made.
func hasVolumes(c *v1.Container, volumes map[string]volume.Mounted) bool {
	for i := range c.VolumeMounts {
		if _, made := volumes[c.VolumeMounts[i].Name]; !made {
			return false
		}
	}
	return true
}

// envInput is what the variables of a pod's containers are made of now.
func (r *Resolver) envInput(pod *v1.Pod, podIPs []string, volumes map[string]volume.Mounted) envInput {
	return envInput{
		pod: pod, objects: r.objectsOf(pod), services: r.services(pod), allocatable: r.cfg.Allocatable, hostIPs: r.hostIPs(), podIPs: podIPs,
		openFile: func(volume, path string) (io.ReadCloser, error) { return openIn(volumes[volume].Path, path) },
	}
}
