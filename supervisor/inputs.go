package supervisor

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// prepare makes what the pod's containers need on this host, and returns what
// resolves the inputs of each container when it is about to be created.
func (s *podScripts) prepare(ctx context.Context, pod *v1.Pod) (func(context.Context, *v1.Container, []string) (cri.Inputs, error), error) {
	volumes, err := s.setupVolumes(ctx, pod)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error) {
		env := resolveEnv(c)
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
		return cri.Inputs{Env: env, Mounts: mounts, TerminationMessageHost: file}, nil
	}, nil
}
