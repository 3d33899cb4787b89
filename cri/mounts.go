package cri

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// resolveMounts sets what only the runtime can determine about a container's
// mounts: it pulls images that are mounted, and decides whether a mount that
// should be recursively read-only if possible becomes so.
func (t *transaction) resolveMounts(ctx context.Context, mounts []Mount) error {
	for i := range mounts {
		m := &mounts[i]
		if m.Image != nil {
			ref, err := t.images.ensure(ctx, t.Pod, m.Image.Reference, m.Image.PullPolicy, t.Credentials)
			if err != nil {
				return err
			}
			m.imageRef = ref
		}
		if m.RecursiveReadOnly == v1.RecursiveReadOnlyIfPossible {
			k, err := t.runtime.Capabilities(ctx)
			if err != nil {
				return fmt.Errorf("failed to determine whether the runtime supports recursive read-only mounts: %w", err)
			}
			m.RecursiveReadOnly = v1.RecursiveReadOnlyDisabled
			if k.Handlers[t.Sandbox.RuntimeHandler].GetRecursiveReadOnlyMounts() {
				m.RecursiveReadOnly = v1.RecursiveReadOnlyEnabled
			}
		}
	}
	return nil
}

// mounts returns the mounts of the inputs and the file for the termination
// message.
func mounts(c *v1.Container, in Inputs) []*runtimeapi.Mount {
	out := make([]*runtimeapi.Mount, 0, len(in.Mounts)+1)
	for _, m := range in.Mounts {
		mount := &runtimeapi.Mount{
			HostPath:          m.HostPath,
			ContainerPath:     m.ContainerPath,
			Readonly:          m.ReadOnly,
			RecursiveReadOnly: m.RecursiveReadOnly == v1.RecursiveReadOnlyEnabled,
			SelinuxRelabel:    m.Relabel,
			Propagation:       propagation(m.Propagation),
		}
		if m.Image != nil {
			mount.Image = &runtimeapi.ImageSpec{Image: m.imageRef, UserSpecifiedImage: m.Image.Reference}
			mount.ImageSubPath = m.Image.SubPath
		}
		out = append(out, mount)
	}
	if in.TerminationMessageHost != "" && c.TerminationMessagePath != "" {
		out = append(out, &runtimeapi.Mount{HostPath: in.TerminationMessageHost, ContainerPath: c.TerminationMessagePath})
	}
	return out
}

func propagation(mode v1.MountPropagationMode) runtimeapi.MountPropagation {
	switch mode {
	case v1.MountPropagationHostToContainer:
		return runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
	case v1.MountPropagationBidirectional:
		return runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	}
	return runtimeapi.MountPropagation_PROPAGATION_PRIVATE
}

// mountField returns the paths of a field in the mounts of containers that
// request it.
func mountField(path string, asks func(*v1.Pod, *v1.VolumeMount) bool) func(*v1.Pod) []string {
	return func(pod *v1.Pod) (paths []string) {
		for kind, list := range map[string][]v1.Container{"initContainers": pod.Spec.InitContainers,
			"containers": pod.Spec.Containers} {
			for i := range list {
				for j := range list[i].VolumeMounts {
					if asks(pod, &list[i].VolumeMounts[j]) {
						paths = append(paths, fmt.Sprintf("spec.%s[%d].volumeMounts[%d].%s", kind, i, j, path))
					}
				}
			}
		}
		slices.Sort(paths)
		return paths
	}
}

// imageVolumes returns the paths of the pod's image volumes.
func imageVolumes(pod *v1.Pod) (paths []string) {
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Image != nil {
			paths = append(paths, fmt.Sprintf("spec.volumes[%d].image", i))
		}
	}
	return paths
}

// partOfImage reports whether a mount is of a part of an image volume.
func partOfImage(pod *v1.Pod, m *v1.VolumeMount) bool {
	return (m.SubPath != "" || m.SubPathExpr != "") && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		return v.Name == m.Name && v.Image != nil
	})
}
