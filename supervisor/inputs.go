package supervisor

import (
	"context"
	"io"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/volume"
)

// prepare makes what the pod's containers need on this host, and returns what
// resolves the inputs of each container when it is about to be created.
func (s *podScripts) prepare(ctx context.Context, pod *v1.Pod) (func(context.Context, *v1.Container, []string) (cri.Inputs, error), error) {
	// Looked up first: what changes from here on counts as a change.
	revisions := s.objectRevisions(pod)
	volumes, err := s.setupVolumes(ctx, pod)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error) {
		env, err := resolveEnv(c, s.envInput(pod, podIPs, volumes))
		if err != nil {
			return cri.Inputs{}, err
		}
		mounts, err := s.resolveMounts(pod, c, volumes, env)
		if err != nil {
			return cri.Inputs{}, err
		}
		if mounts, err = s.withHostsFile(mounts, pod, podIPs); err != nil {
			return cri.Inputs{}, err
		}
		file, err := s.terminationMessageFile(pod, c)
		if err != nil {
			return cri.Inputs{}, err
		}
		return cri.Inputs{Env: env, Mounts: mounts, TerminationMessageHost: file, Objects: revisions.of(pod, c)}, nil
	}, nil
}

// envInput is what the variables of a pod's containers are made of now.
func (s *podScripts) envInput(pod *v1.Pod, podIPs []string, volumes map[string]volume.Mounted) envInput {
	return envInput{
		pod: pod, objects: s.objectsFor(pod), allocatable: s.cfg.Allocatable, hostIPs: s.cfg.Network.HostIPs.Addresses(), podIPs: podIPs,
		openFile: func(volume, path string) (io.ReadCloser, error) { return openIn(volumes[volume].Path, path) },
	}
}
