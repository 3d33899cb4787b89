package supervisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// Folders of containers within a pod's, and the mode of the file that a
// container, whatever its user, writes its termination message to.
const (
	containersDir          = "containers"
	containerDirMode       = 0o750
	terminationMessageMode = 0o666
)

// prepare makes what the pod's containers need on this host, and returns what
// resolves the inputs of each container when it is about to be created.
func (s *podScripts) prepare(ctx context.Context, pod *v1.Pod) (func(context.Context, *v1.Container, []string) (cri.Inputs, error), error) {
	volumes, err := s.volumes.Setup(ctx, pod)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error) {
		mounts, err := resolveMounts(c, volumes)
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
		return cri.Inputs{Env: resolveEnv(c), Mounts: mounts, TerminationMessageHost: file}, nil
	}, nil
}

// resolveMounts turns volume mounts into bind mounts.
func resolveMounts(c *v1.Container, volumes map[string]string) ([]cri.Mount, error) {
	mounts := make([]cri.Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		path, ok := volumes[m.Name]
		if !ok {
			return nil, fmt.Errorf("volumeMounts[%d]: the pod has no volume %q", i, m.Name)
		}
		mount := cri.Mount{HostPath: path, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly, Propagation: v1.MountPropagationNone}
		if m.MountPropagation != nil {
			mount.Propagation = *m.MountPropagation
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// terminationMessageFile makes a new file for one instance of a container. The
// name is random as in the kubelet: an instance never finds the message of the
// one before it.
func (s *podScripts) terminationMessageFile(pod *v1.Pod, c *v1.Container) (string, error) {
	if c.TerminationMessagePath == "" {
		return "", nil
	}
	root, err := s.volumes.PodDir(pod.UID)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, containersDir, c.Name)
	if err := os.MkdirAll(dir, containerDirMode); err != nil {
		return "", fmt.Errorf("cannot make the container's folder: %w", err)
	}
	f, err := os.CreateTemp(dir, "")
	if err != nil {
		return "", fmt.Errorf("cannot make the file for the termination message: %w", err)
	}
	defer f.Close()
	if err := f.Chmod(terminationMessageMode); err != nil {
		return "", fmt.Errorf("cannot open the termination message to the container: %w", err)
	}
	return f.Name(), nil
}
