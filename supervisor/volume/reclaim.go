package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/supervisor/volume/binding"
)

// Unclaimed returns the bindings on which Reclaim acts: those of volumes that are to be deleted,
// since their claim is gone or their deletion has begun. claim reports whether a manifest declares
// a claim. The binding of a declared volume stays until the user removes it: with another one,
// the claim could get the data of another claim.
func (v *Volumes) Unclaimed(claim func(namespace, name string) bool) ([]binding.Binding, error) {
	v.claims.Lock()
	defer v.claims.Unlock()
	if err := v.load(); err != nil {
		return nil, err
	}
	var found []binding.Binding
	for i := range v.bindings.list {
		b := &v.bindings.list[i]
		if b.Deleting || b.Provisioned && b.Volume.Spec.PersistentVolumeReclaimPolicy == v1.PersistentVolumeReclaimDelete &&
			!claim(b.Namespace, b.Claim) {
			found = append(found, *b)
		}
	}
	return found, nil
}

// Reclaim removes a binding that Unclaimed has returned, and deletes the directory of its volume
// with the content, never across a mount point. It is ErrClaimInUse while a pod uses the claim.
func (v *Volumes) Reclaim(b *binding.Binding) error {
	_, err := v.removeVolume(b.Namespace, b.Claim, false)
	return err
}

// Errors of RemoveClaim.
var (
	ErrNoClaim    = errors.New("no such persistent volume")
	ErrClaimInUse = errors.New("the persistent volume is in use")
)

// RemoveClaim deletes the volume of a claim with its content. Of a volume that a manifest
// declares the content stays, and only the binding is removed. It is an error if a pod
// uses the claim, or if something is mounted in the directory.
func (v *Volumes) RemoveClaim(namespace, name string) error {
	removed, err := v.removeVolume(namespace, name, true)
	if err == nil && !removed {
		return fmt.Errorf("%w: %s/%s", ErrNoClaim, namespace, name)
	}
	return err
}

// removeVolume removes the binding of a claim, and the directory of a provisioned volume; with own also a directory
// that the claim has of its own. It reports whether there was one. One removal of a claim runs at a time: a second one
// could delete what a pod has written after the first. Other claims do not wait.
func (v *Volumes) removeVolume(namespace, name string, own bool) (bool, error) {
	dir, err := v.claimDir(namespace, name)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrNoClaim, err)
	}
	defer v.lockClaim(namespace, name)()
	bound, err := v.startRemoval(namespace, name, own)
	if err != nil || bound == nil {
		return false, err
	}
	if bound.Provisioned {
		if err := v.removeDirectory(bound, dir); err != nil {
			return false, fmt.Errorf("failed to delete persistent volume %s/%s: %w", namespace, name, err)
		}
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	return true, v.removeBinding(bound)
}

// startRemoval marks a binding, so that no pod uses the volume while it is deleted, also if the daemon ends in between.
// A directory that a claim has of its own gets one for that. While the disk of a provisioned volume is not mounted, or
// something is mounted in its directory, that is an error: the data would come back with the disk.
func (v *Volumes) startRemoval(namespace, name string, own bool) (*binding.Binding, error) {
	dir, err := v.claimDir(namespace, name)
	if err != nil {
		return nil, err
	}
	bound, err := v.unusedBinding(namespace, name)
	if err != nil {
		return nil, err
	}
	if bound == nil && own {
		if _, err := os.Lstat(dir); err != nil {
			return nil, ignoreNotExist(err)
		}
		bound = ownBinding(namespace, name, dir)
	}
	if bound == nil || !bound.Provisioned {
		return bound, nil
	}
	// Before the mark: what cannot be deleted now must not be deleted later, when the claim may be
	// in use again.
	if bound.Used {
		if err := v.checkDeletable(bound); err != nil {
			return nil, err
		}
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	if err := v.checkUnused(dir, namespace, name); err != nil {
		return nil, err
	}
	now, err := v.bindingOf(namespace, name)
	switch {
	case err != nil:
		return nil, err
	case now != nil && now.Used != bound.Used:
		return nil, fmt.Errorf("%w: a pod has just used %s/%s; try again", ErrClaimInUse, namespace, name)
	case now != nil && now.Deleting:
		return now, nil
	case now != nil:
		bound = now
	case !bound.Used:
		return nil, nil // it was bound again
	}
	bound.Deleting = true
	return bound, v.saveBinding(bound)
}

// unusedBinding returns the binding of a claim, nil if it has none. It is ErrClaimInUse if a pod uses the claim.
func (v *Volumes) unusedBinding(namespace, name string) (*binding.Binding, error) {
	dir, err := v.claimDir(namespace, name)
	if err != nil {
		return nil, err
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	bound, err := v.bindingOf(namespace, name)
	if err == nil {
		err = v.checkUnused(dir, namespace, name)
	}
	return bound, err
}

// ownBinding returns the binding that a directory, which a claim has of its own, has while it is deleted.
func ownBinding(namespace, name, dir string) *binding.Binding {
	return &binding.Binding{Namespace: namespace, Claim: name, Provisioned: true, MountPoint: "/", Used: true,
		Volume: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: namespace + "." + name},
			Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: dir}}}}}
}

// checkDeletable returns an error if the disk of a volume is not mounted, or if something is mounted in its directory.
func (v *Volumes) checkDeletable(bound *binding.Binding) error {
	if err := v.checkMounted(bound); err != nil {
		return err
	}
	dir := bound.Volume.Spec.HostPath.Path
	// The kernel reports paths without links. A link in place of the directory is deleted, and not followed.
	above, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return ignoreNotExist(err)
	}
	points, err := v.readMounts()
	if err != nil {
		return fmt.Errorf("failed to read mounts: %w", err)
	}
	if found := mountsBelow(points, filepath.Join(above, filepath.Base(dir))); len(found) > 0 {
		return stillMountedError(found[0])
	}
	return nil
}

// removeDirectory deletes the directory of a provisioned volume, or own, that of the claim itself.
func (v *Volumes) removeDirectory(bound *binding.Binding, own string) error {
	dir, remove := bound.Volume.Spec.HostPath.Path, removeBelowClass
	if dir == own {
		remove = removeTree
	}
	if v.removeVolumeTree != nil {
		remove = v.removeVolumeTree
	}
	if dir == own || checkClaimDir(dir) == nil {
		v.releaseQuota(dir)
	}
	if err := remove(dir); err != nil {
		return err
	}
	// That of the namespace stays if it has other claims, and does no harm if it stays.
	_ = os.Remove(filepath.Dir(dir))
	return nil
}

// checkUnused returns an error if a pod uses a claim.
func (v *Volumes) checkUnused(dir, namespace, name string) error {
	users, err := v.claimUsers(dir)
	if err != nil {
		return err
	}
	if len(users) == 0 {
		return nil
	}
	var pods []string
	for _, uid := range users {
		pods = append(pods, v.podText(uid))
	}
	return fmt.Errorf("%w: %s/%s is used by %s; remove it first", ErrClaimInUse, namespace, name,
		strings.Join(pods, " and "))
}
