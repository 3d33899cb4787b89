package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// clusterVolume begins the target of a link that records which pod uses a PersistentVolume of a
// cluster. It is followed by the UID of the volume: a claim of the same name, in a manifest or in
// another cluster, is another one.
const clusterVolume = "cluster-volume/"

// setupClusterClaim gives a pod the PersistentVolume to which a cluster has bound its claim. What the
// volume contains is the cluster's: nothing here creates or deletes a claim or a volume.
func (s *setup) setupClusterClaim(ctx context.Context, podDir string, vol *v1.Volume) (Mounted, error) {
	mounted, err := s.useClusterClaim(ctx, podDir, vol)
	if ctx.Err() == nil {
		s.waits.set(s.req.Pod.UID, vol.Name, err)
	}
	if err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", s.req.Pod.Namespace, podinfo.ClaimOf(s.req.Pod, vol),
			err)
	}
	return mounted, nil
}

func (s *setup) useClusterClaim(ctx context.Context, podDir string, vol *v1.Volume) (Mounted, error) {
	claim, volume, failure := s.req.Cluster.BoundClaim(s.req.Pod, vol)
	if volume == nil {
		return Mounted{}, failure
	}
	c := &claimVolume{podDir: podDir, name: vol.Name, src: vol.PersistentVolumeClaim,
		dir: clusterVolume + string(volume.UID), cluster: true, declared: vol}
	if c.src == nil {
		c.src = &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}
	}
	used, err := os.Readlink(c.usersLink())
	held := err == nil && used == c.dir
	switch {
	case err == nil && !held:
		return Mounted{}, fmt.Errorf("is bound to PersistentVolume %s now, and the pod uses another one; delete the pod",
			volume.Name)
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return Mounted{}, err
	case !held && failure != nil:
		return Mounted{}, failure
	}
	if err := checkClusterVolume(claim, volume); err != nil {
		return Mounted{}, err
	}
	group, err := volumeGroupOf(volume)
	if err != nil {
		return Mounted{}, err
	}
	bound := &binding.Binding{Namespace: claim.Namespace, Claim: claim.Name, Volume: volume, Used: held}
	mounted, err := s.setupBound(ctx, c, bound, claim, held)
	mounted.Group = group
	return mounted, err
}

// volumeGroupOf returns the group with which pods use a volume, nil if it names none. The kubelet
// ignores an annotation that is no number, and the pod may then not be able to read the volume.
func volumeGroupOf(volume *v1.PersistentVolume) (*int64, error) {
	text, ok := volume.Annotations[podinfo.AnnotationVolumeGroup]
	if !ok {
		return nil, nil
	}
	group, err := strconv.ParseInt(text, 10, 32)
	if err != nil || group < 0 {
		return nil, fmt.Errorf("PersistentVolume %s: annotation %s is %q, and must be the number of a group", volume.Name,
			podinfo.AnnotationVolumeGroup, text)
	}
	return &group, nil
}

// checkClusterVolume rejects what this node cannot mount. The API server has validated the volume.
func checkClusterVolume(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) error {
	spec := &volume.Spec
	switch {
	case binding.ModeOf(claim.Spec.VolumeMode) != binding.ModeOf(spec.VolumeMode):
		return fmt.Errorf("PersistentVolume %s has volumeMode %s, and the claim has volumeMode %s; bind the claim to a "+
			"volume of its mode",
			volume.Name, binding.ModeOf(spec.VolumeMode), binding.ModeOf(claim.Spec.VolumeMode))
	case spec.HostPath == nil && spec.Local == nil && spec.NFS == nil && spec.CSI == nil:
		return fmt.Errorf("PersistentVolume %s is of type %s, which podstead does not support in a cluster; it supports "+
			"hostPath, local, nfs and csi", volume.Name, VolumeType(volume))
	case binding.IsBlock(spec.VolumeMode) && spec.Local == nil && spec.CSI == nil:
		return fmt.Errorf("PersistentVolume %s is of type %s and has volumeMode Block, which podstead supports for local "+
			"and csi; use one of these, or volumeMode Filesystem", volume.Name, VolumeType(volume))
	case len(spec.MountOptions) > 0 && spec.NFS == nil && spec.CSI == nil:
		return fmt.Errorf("PersistentVolume %s has spec.mountOptions, and podstead mounts only nfs and csi; mount the file "+
			"system with these options on the host, and remove the field", volume.Name)
	case spec.Local != nil && !filepath.IsAbs(spec.Local.Path):
		return fmt.Errorf("PersistentVolume %s: local path %q must be absolute", volume.Name, spec.Local.Path)
	}
	return nil
}

// VolumeType returns the name of a volume's type, such as nfs, as in the API.
func VolumeType(volume *v1.PersistentVolume) string {
	source := reflect.ValueOf(&volume.Spec.PersistentVolumeSource).Elem()
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "unknown"
}
