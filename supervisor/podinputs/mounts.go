package podinputs

import (
	"context"
	"fmt"
	"os"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/volume"
)

// setupVolumes creates and updates the pod's volumes. A volume whose object is no
// longer declared keeps its content, which an event reports. With an error, the
// volumes that could be set up are returned too.
func (r *Resolver) setupVolumes(ctx context.Context, pod *v1.Pod) (map[string]volume.Mounted, error) {
	allocatable := r.cfg.Allocatable
	objects := r.objectsOf(pod)
	result, err := r.cfg.Volumes.Setup(ctx, &volume.Request{
		Pod:     pod,
		Objects: objects,
		Token:   r.token(pod),
		Cluster: objects.cluster,
		Memory:  allocatable.Memory().Value(),
		Downward: func(item *v1.DownwardAPIVolumeFile) (string, error) {
			return downwardFile(pod, item, allocatable)
		},
	})
	if len(r.AwaitedObjects(pod)) > 0 {
		// An object that is not reported yet is not a removed one.
		result.Stale, result.Unexpanded = nil, nil
	}
	for _, kept := range result.Stale {
		r.cfg.Events.Event(pod, v1.EventTypeWarning, ReasonFailedMount, kept.Error())
	}
	for _, claim := range result.Unenforced {
		r.cfg.Events.Event(pod, v1.EventTypeWarning, reasonSizeNotEnforced, claim.Error())
	}
	for _, text := range result.Expanded {
		r.cfg.Events.Event(pod, v1.EventTypeNormal, reasonExpanded, text)
	}
	for _, failure := range result.Unexpanded {
		r.cfg.Events.Event(pod, v1.EventTypeWarning, reasonNotExpanded, failure.Error())
	}
	return result.Volumes, err
}

// resolveMounts turns volume mounts into bind mounts.
func (r *Resolver) resolveMounts(pod *v1.Pod, c *v1.Container, volumes map[string]volume.Mounted,
	env []cri.EnvVar) ([]cri.Mount, error) {
	mounts := make([]cri.Mount, 0, len(c.VolumeMounts))
	for i := range c.VolumeMounts {
		mount, err := r.resolveMount(pod, c, i, volumes, env)
		if err != nil {
			return nil, fmt.Errorf("volumeMounts[%d]: %w", i, err)
		}
		mounts = append(mounts, mount)
	}
	return mounts, nil
}

// resolveMount resolves the i-th volume mount of a container.
func (r *Resolver) resolveMount(pod *v1.Pod, c *v1.Container, i int, volumes map[string]volume.Mounted,
	env []cri.EnvVar) (cri.Mount, error) {
	m := &c.VolumeMounts[i]
	vol, ok := volumes[m.Name]
	if !ok {
		return cri.Mount{}, fmt.Errorf("the pod has no volume %q", m.Name)
	}
	mount := cri.Mount{
		HostPath: vol.Path, ContainerPath: m.MountPath, ReadOnly: m.ReadOnly || vol.ReadOnly,
		Relabel: vol.Relabel && selinuxEnabled(), Propagation: v1.MountPropagationNone,
	}
	if m.MountPropagation != nil {
		mount.Propagation = *m.MountPropagation
	}
	if m.RecursiveReadOnly != nil {
		mount.RecursiveReadOnly = *m.RecursiveReadOnly
	}
	part, err := subPath(m, env)
	if err != nil {
		return cri.Mount{}, err
	}
	if vol.Image != nil {
		mount.Image = &cri.ImageMount{Reference: vol.Image.Reference, PullPolicy: vol.Image.PullPolicy, SubPath: part}
		return mount, nil
	}
	if part != "" {
		mount.HostPath, err = r.cfg.Volumes.MountSubPath(vol,
			volume.SubPath{UID: pod.UID, Volume: m.Name, Container: c.Name, Index: i, Path: part})
		if err != nil {
			return cri.Mount{}, err
		}
	}
	return mount, r.cfg.Volumes.CheckPropagation(mount.HostPath, mount.Propagation)
}

// subPath returns the path in the volume that is mounted, empty for the whole volume.
func subPath(m *v1.VolumeMount, env []cri.EnvVar) (string, error) {
	if m.SubPathExpr == "" {
		return m.SubPath, nil
	}
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.Name] = e.Value
	}
	part, err := cri.ExpandStrictly(m.SubPathExpr, values)
	if err != nil {
		return "", fmt.Errorf("subPathExpr: %w", err)
	}
	if part == "" {
		return "", fmt.Errorf("subPathExpr %q expands to an empty path", m.SubPathExpr)
	}
	return part, volume.CheckSubPath(part)
}

// volumeGroups returns the supplemental groups that the pod's volumes need and that the pod does not
// have, sorted. As at the kubelet, all of its containers get them.
func volumeGroups(pod *v1.Pod, volumes map[string]volume.Mounted) (groups []int64) {
	for _, v := range volumes {
		if v.Group != nil && !hasGroup(pod, *v.Group) && !slices.Contains(groups, *v.Group) {
			groups = append(groups, *v.Group)
		}
	}
	slices.Sort(groups)
	return groups
}

func hasGroup(pod *v1.Pod, group int64) bool {
	sc := pod.Spec.SecurityContext
	return sc != nil && (slices.Contains(sc.SupplementalGroups, group) || sc.FSGroup != nil && *sc.FSGroup == group)
}

// selinuxEnabled reports whether SELinux is enabled on this host. Elsewhere a label
// would be an attribute without effect.
func selinuxEnabled() bool {
	_, err := os.Stat("/sys/fs/selinux/enforce")
	return err == nil
}
