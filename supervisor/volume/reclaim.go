package volume

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/supervisor/volume/binding"
)

// Unclaimed returns the bindings on which Reclaim acts: those of volumes that are to be deleted,
// since their claim is gone or their deletion has begun. claim reports whether a manifest declares
// a claim. The binding of a declared volume stays until the user removes it: with another one,
// the claim could get the data of another claim.
func (v *Volumes) Unclaimed(claim func(namespace, name string) bool) ([]binding.Binding, error) {
	list, err := v.ListBindings()
	if err != nil {
		return nil, err
	}
	var found []binding.Binding
	for i := range list {
		b := &list[i]
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
	return v.removeBinding(b.Namespace, b.Claim)
}

// removeBinding removes the binding of a claim, and the directory of a provisioned
// volume. Without a binding it does nothing. One removal runs at a time: a second one of the
// same claim could delete what a pod has written after the first.
func (v *Volumes) removeBinding(namespace, name string) error {
	v.removals.Lock()
	defer v.removals.Unlock()
	bound, err := v.startRemoval(namespace, name)
	if err != nil || bound == nil {
		return err
	}
	if bound.Provisioned {
		if err := v.removeProvisioned(bound); err != nil {
			return err
		}
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	return v.drop(bound)
}

// startRemoval marks a binding, so that no pod uses the volume while it is deleted, also
// if the daemon ends in between. While the disk of a provisioned volume is not mounted that is an
// error: the data would come back with the disk.
func (v *Volumes) startRemoval(namespace, name string) (*binding.Binding, error) {
	dir, err := v.claimDir(namespace, name)
	if err != nil {
		return nil, err
	}
	v.claims.Lock()
	defer v.claims.Unlock()
	bound, err := v.bindingOf(namespace, name)
	if err != nil || bound == nil {
		return nil, err
	}
	if err := v.checkUnused(dir, namespace, name); err != nil {
		return nil, err
	}
	if !bound.Provisioned {
		return bound, nil
	}
	// Before the mark: what cannot be deleted now must not be deleted later, when the claim may be
	// in use again.
	if bound.Used {
		if err := v.checkMounted(bound); err != nil {
			return nil, err
		}
	}
	if bound.Deleting {
		return bound, nil
	}
	bound.Deleting = true
	return bound, v.put(bound)
}

// removeProvisioned deletes the directory of a provisioned volume.
func (v *Volumes) removeProvisioned(bound *binding.Binding) error {
	dir := bound.Volume.Spec.HostPath.Path
	v.releaseQuota(dir)
	if err := removeTree(dir); err != nil {
		return fmt.Errorf("failed to delete volume %s: %w", bound.Volume.Name, err)
	}
	// That of the namespace stays if it has other claims, and does no harm if it stays.
	_ = os.Remove(filepath.Dir(dir))
	return nil
}
