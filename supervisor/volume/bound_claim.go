package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podstead/podstead/internal/fsgroup"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// claimVolume is the volume of a pod that uses a claim.
type claimVolume struct {
	podDir, name string
	src          *v1.PersistentVolumeClaimVolumeSource
	// dir is the directory that the claim has if it is not bound to a PersistentVolume.
	// Links to it record which pods use the claim, also if it does not exist.
	dir string
	// cluster: a cluster has bound the claim. dir is then no directory, and declared is the volume of the pod.
	cluster  bool
	declared *v1.Volume
}

// readOnly reports whether the pod may only read. As at the kubelet, the access modes of a claim in a
// cluster decide where it is mounted, and not how.
func (c *claimVolume) readOnly(claim *v1.PersistentVolumeClaim) bool {
	return c.src.ReadOnly || claim != nil && !c.cluster && !writable(claim)
}

var errVolumeDeleted = errors.New("the volume is being deleted; the claim is bound again after that")

// usersLink records that the pod uses a claim that is bound to a PersistentVolume.
func (c *claimVolume) usersLink() string {
	return filepath.Join(c.podDir, volumesDir, pluginBound, c.name)
}

// path returns the path of the volume in the pod's directory for a plugin.
func (c *claimVolume) path(plugin string) string {
	return filepath.Join(c.podDir, volumesDir, plugin, c.name)
}

// setupBound gives a pod the volume to which its claim is bound. held reports that the pod
// uses it already: then it is only checked whether its disk is still there, since the runtime
// creates a directory that is missing, and a network file system is mounted again.
func (s *setup) setupBound(ctx context.Context, c *claimVolume, bound *binding.Binding, claim *v1.PersistentVolumeClaim,
	held bool) (Mounted, error) {
	mounted := Mounted{ReadOnly: c.readOnly(claim)}
	spec := &bound.Volume.Spec
	if err := s.checkMode(c.name, binding.ModeOf(spec.VolumeMode)); err != nil {
		return Mounted{}, err
	}
	switch {
	case spec.Local != nil && binding.IsBlock(spec.VolumeMode):
		return s.setupBlock(c, bound, claim, mounted.ReadOnly, held)
	case spec.NFS != nil:
		mounted.Path, mounted.ReadOnly = c.path(pluginNFS), mounted.ReadOnly || spec.NFS.ReadOnly
	case spec.Local != nil:
		mounted.Path, mounted.Relabel = spec.Local.Path, true
	case spec.HostPath != nil:
		mounted.Path, mounted.Relabel = spec.HostPath.Path, bound.Provisioned
	case spec.CSI != nil:
	default:
		return Mounted{}, fmt.Errorf("PersistentVolume %s is of a type that this version of podstead does not support",
			bound.Volume.Name)
	}
	if held {
		if err := s.checkDisk(bound); err != nil {
			return Mounted{}, err
		}
	} else if err := s.prepareBound(c, bound, claim); err != nil {
		return Mounted{}, err
	}
	if spec.CSI != nil {
		return s.useCSI(ctx, c, bound, claim, held)
	}
	if bound.Provisioned {
		s.limitSize(ctx, c, mounted.Path, claim)
	}
	if spec.NFS != nil {
		if err := s.setupNFS(ctx, mounted.Path, spec.NFS, spec.MountOptions); err != nil {
			return Mounted{}, err
		}
	}
	if held {
		return mounted, nil
	}
	if mounted.Relabel && !mounted.ReadOnly {
		if err := s.group.Apply(ctx, mounted.Path, fsgroup.ReadWrite); err != nil {
			return Mounted{}, err
		}
	}
	if err := s.recordUse(c, claim); err != nil {
		return Mounted{}, err
	}
	if !c.cluster {
		s.reportChange(bound, claim)
	}
	if spec.NFS != nil {
		return mounted, nil // statistics of a server that does not respond would hang
	}
	return mounted, linkTo(c.path(pluginClaim), mounted.Path)
}

// prepareBound checks whether the pod may use the volume and what is on the host, and
// creates the directory of a provisioned volume at its first use.
func (s *setup) prepareBound(c *claimVolume, bound *binding.Binding, claim *v1.PersistentVolumeClaim) error {
	if bound.Deleting {
		return errVolumeDeleted
	}
	s.claims.Lock()
	err := s.checkExclusive(c.dir, claim)
	s.claims.Unlock()
	if err != nil {
		return err
	}
	if source := bound.Volume.Spec.HostPath; source != nil && !bound.Provisioned {
		_, err := setupHostPath(source)
		return err
	}
	return s.checkDisk(bound)
}

// checkDisk checks whether the directory of a provisioned or local volume is there, and its disk.
func (s *setup) checkDisk(bound *binding.Binding) error {
	if bound.Provisioned {
		return s.prepareProvisioned(bound)
	}
	local := bound.Volume.Spec.Local
	if local == nil {
		return nil
	}
	info, err := os.Stat(local.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("PersistentVolume %s: local path %s does not exist; mount or create it", bound.Volume.Name,
			local.Path)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("PersistentVolume %s: local path %s is not a directory; mount the device, and name the directory, "+
			"or set spec.volumeMode to Block", bound.Volume.Name, local.Path)
	}
	return err
}

// prepareProvisioned creates the directory of a provisioned volume once. A directory that
// is missing later is not created again: its disk is then not mounted, or is another one.
func (s *setup) prepareProvisioned(bound *binding.Binding) error {
	dir := bound.Volume.Spec.HostPath.Path
	if err := s.checkMounted(bound); err != nil {
		return err
	}
	err := checkClaimDir(dir)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case bound.Used:
		return fmt.Errorf("directory %s of the volume does not exist any more; mount the disk that has it, or delete the "+
			"volume with: podstead volumes rm %s/%s",
			dir, bound.Namespace, bound.Claim)
	}
	defer s.lockClaim(bound.Namespace, bound.Claim)()
	s.claims.Lock()
	_, err = s.usableBinding(bound.Namespace, bound.Claim)
	s.claims.Unlock()
	if err == nil {
		err = checkClaimDir(dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return makeClaimDirBelowClass(dir)
}

// checkMounted returns an error if the disk of a provisioned volume is not mounted, so
// that nothing is written to the directory below its mount point.
func (v *Volumes) checkMounted(bound *binding.Binding) error {
	// The class's path: it is two levels above the directory of the claim.
	root := filepath.Dir(filepath.Dir(bound.Volume.Spec.HostPath.Path))
	real, err := filepath.EvalSymlinks(root)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	class := bound.Volume.Spec.StorageClassName
	switch {
	case missing && bound.MountPoint == "/":
		return fmt.Errorf("StorageClass %s: path %s does not exist; create it", class, root)
	case missing && bound.MountPoint == "":
		return fmt.Errorf("StorageClass %s: path %s does not exist; mount its disk, or create it there", class, root)
	case bound.MountPoint == "/":
		return nil
	}
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("failed to read mounts: %w", err)
	}
	at := mountOf(points, real).Mountpoint
	if bound.MountPoint == "" {
		if at == "/" {
			return fmt.Errorf("StorageClass %s: path %s is on the root file system; mount its disk, or set the parameter "+
				"mountPoint: / if it belongs there",
				class, root)
		}
		return nil
	}
	want, err := filepath.EvalSymlinks(bound.MountPoint)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, m := range points {
		if err != nil || m.Mountpoint != want {
			continue
		}
		if missing {
			return fmt.Errorf("StorageClass %s: path %s does not exist on the disk that is mounted on %s; create it", class,
				root, bound.MountPoint)
		}
		if at == want || strings.HasPrefix(at, want+"/") {
			return nil
		}
	}
	return fmt.Errorf("StorageClass %s: nothing is mounted on %s; mount its disk", class, bound.MountPoint)
}

// reportChange reports what has changed in the claim or in a declared volume since they
// were bound, and is not in effect.
func (s *setup) reportChange(bound *binding.Binding, claim *v1.PersistentVolumeClaim) {
	volume, spec := bound.Volume, &claim.Spec
	for _, f := range []struct {
		changed bool
		name    string
	}{
		{spec.VolumeName != "" && spec.VolumeName != volume.Name, "volumeName"},
		{binding.ModeOf(spec.VolumeMode) != binding.ModeOf(volume.Spec.VolumeMode), "volumeMode"},
		{spec.StorageClassName != nil && *spec.StorageClassName != volume.Spec.StorageClassName && spec.VolumeName == "",
			"storageClassName"},
	} {
		if f.changed {
			s.addStale(fmt.Errorf("spec.%s of PersistentVolumeClaim %s/%s has changed since it was bound to PersistentVolume "+
				"%s; to bind it again, remove its pods and run: podstead volumes rm %[2]s/%[3]s",
				f.name, bound.Namespace, bound.Claim, volume.Name))
		}
	}
	if bound.Provisioned {
		return
	}
	for _, declared := range s.req.Objects.Volumes() {
		if declared.Name == bound.Volume.Name &&
			!equality.Semantic.DeepEqual(declared.Spec.PersistentVolumeSource, bound.Volume.Spec.PersistentVolumeSource) {
			s.addStale(fmt.Errorf("PersistentVolume %s has another source since it was bound; to use it, remove the pods and "+
				"run: podstead volumes rm %s/%s",
				declared.Name, bound.Namespace, bound.Claim))
		}
	}
}

// recordUse records that the pod uses the claim, unless another pod uses one that is for
// one pod only.
func (s *setup) recordUse(c *claimVolume, claim *v1.PersistentVolumeClaim) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.checkExclusive(c.dir, claim); err != nil {
		return err
	}
	if c.cluster {
		return linkTo(c.usersLink(), c.dir)
	}
	bound, err := s.usableBinding(claim.Namespace, claim.Name)
	if err != nil {
		return err
	}
	if !bound.Used {
		bound.Used = true
		if err := s.saveBinding(bound); err != nil {
			return err
		}
	}
	return linkTo(c.usersLink(), c.dir)
}

// usableBinding returns the binding of a claim, unless the user has removed the volume in the meantime, or it is being
// deleted. The caller holds claims.
func (v *Volumes) usableBinding(namespace, name string) (*binding.Binding, error) {
	bound, err := v.bindingOf(namespace, name)
	if err == nil && (bound == nil || bound.Deleting) {
		err = errVolumeDeleted
	}
	return bound, err
}

// linkTo makes a link in a pod's directory.
func linkTo(link, target string) error {
	if err := os.MkdirAll(filepath.Dir(link), podMode); err != nil {
		return err
	}
	return replaceLink(filepath.Dir(link), filepath.Base(link), filepath.Base(link)+".new", target)
}
