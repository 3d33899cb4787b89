package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// use is a volume that a pod uses.
type use struct {
	vol *record
	pod *podRecord
}

// Unpublish unpublishes all volumes of a pod, and unstages those that no other pod uses. It calls
// no driver for a pod without volumes of drivers. After an error it is to be called again: the
// volumes that are left are recorded.
func (m *Manager) Unpublish(ctx context.Context, uid types.UID) error {
	uses, err := m.uses(uid)
	if err != nil {
		left, listErr := m.pathsFor(uid)
		if listErr == nil && len(left) == 0 {
			return nil // the pod has no such volume
		}
		return err
	}
	var errs []error
	for _, u := range uses {
		if err := m.unpublish(ctx, u); err != nil {
			m.await(u.vol.Driver, uid)
			errs = append(errs, fmt.Errorf("failed to unpublish volume %q: %w", u.pod.Name, err))
		}
	}
	if len(uses) == 0 {
		errs = append(errs, m.checkDevices(uid))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	m.stopWaiting(uid)
	return nil
}

// checkDevices returns an error if a block device was published for a pod of which the record has nothing: it was
// damaged, and was moved aside because no volume was mounted. A driver need not mount a device to publish it.
func (m *Manager) checkDevices(uid types.UID) error {
	left, err := m.devicesFor(uid)
	if err != nil || len(left) == 0 {
		return err
	}
	return fmt.Errorf("%s was published for the pod, and the record of CSI volumes, which was damaged, does not have it "+
		"any more: see that its driver has ended the use of the device, or reboot the host, and then remove the file",
		left[0])
}

// uses returns the volumes that a pod uses.
func (m *Manager) uses(uid types.UID) (uses []use, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return nil, err
	}
	for _, r := range m.state.Volumes {
		for _, p := range r.Pods {
			if p.UID == uid {
				uses = append(uses, use{r, p})
			}
		}
	}
	return uses, nil
}

// unpublish ends the use of a volume by a pod. Its steps can be repeated, so that a step goes on if what the
// last one has done could not be recorded.
func (m *Manager) unpublish(ctx context.Context, u use) error {
	unlock, err := m.lock(ctx, u.vol.Driver, u.vol.Handle)
	if err != nil {
		return err
	}
	defer unlock()
	if !slices.Contains(u.vol.Pods, u.pod) {
		return nil // another call has ended it
	}
	if gone, err := m.endedWithBoot(u); err != nil || gone {
		return err
	}
	if u.pod.Called {
		if err := m.undo(ctx, u, "NodeUnpublishVolume", u.pod.Target); err != nil {
			return err
		}
	}
	last := len(u.vol.Pods) == 1
	_ = m.update(func() {
		u.pod.Called, u.pod.Published = false, false
		u.vol.Staged = u.vol.Staged && !last
	})
	if err := removeEmpty(u.pod.Target); err != nil {
		return err
	}
	m.removeParents(u.pod.Target)
	if last && u.vol.StagingPath != "" {
		if err := m.undo(ctx, u, "NodeUnstageVolume", u.vol.StagingPath); err != nil {
			return err
		}
		if err := removeEmpty(u.vol.StagingPath); err != nil {
			return err
		}
		m.removeParents(u.vol.StagingPath)
	}
	m.forget(u)
	return nil
}

// undo calls the driver to unpublish or unstage a volume. What the driver does not unmount is
// unmounted: its container may have mounted the directory without propagation.
func (m *Manager) undo(ctx context.Context, u use, method, path string) error {
	d, err := m.driverFor(u.vol.Driver)
	if err != nil {
		return fmt.Errorf("%s is still to be called for volume %s: %w; if the driver was removed for good, reboot the host",
			method, u.vol.Handle, err)
	}
	failure := d.call(ctx, method, &pathRequest{volumeID: u.vol.Handle, path: path}, &empty{})
	if isUnreachable(failure) {
		return fmt.Errorf("%w; if the driver was removed for good, reboot the host", failure)
	}
	if failure != nil && !isNotFound(failure) {
		return failure
	}
	point, err := m.mountedAt(path)
	if err != nil || point == nil {
		return err
	}
	if failure != nil {
		return fmt.Errorf("%w; the driver does not know the volume, which is still mounted: stop what uses it, then run: "+
			"umount %s", failure, path)
	}
	if err := m.options.Unmount(path); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("CSI driver %s has answered %s, but %s is still mounted and cannot be unmounted: %w; list the "+
			"processes that use it with: fuser -vm %[3]s", u.vol.Driver, method, path, err)
	}
	return nil
}

// endedWithBoot drops the use of a volume that ended with an earlier boot, if its driver is not
// there to be called: nothing of it is left on the node.
func (m *Manager) endedWithBoot(u use) (bool, error) {
	m.mu.Lock()
	absent := u.vol.Stale && m.drivers[u.vol.Driver] == nil
	m.mu.Unlock()
	if !absent {
		return false, nil
	}
	for _, path := range []string{u.pod.Target, u.vol.StagingPath} {
		if path == "" {
			continue
		}
		if point, err := m.mountedAt(path); err != nil || point != nil {
			return false, err
		}
		if err := removeEmpty(path); err != nil {
			return false, err
		}
		m.removeParents(path)
	}
	m.log.Info("CSI volume ended with the previous boot; its driver is not registered and was not called", "driver",
		u.vol.Driver, "volume", u.vol.Handle)
	m.forget(u)
	return true, nil
}

// forget removes the record of a use, and of a volume that is not used any more.
func (m *Manager) forget(u use) {
	_ = m.update(func() {
		if u.pod.repeat != nil {
			u.pod.repeat.Stop()
		}
		u.vol.Pods = slices.DeleteFunc(u.vol.Pods, func(p *podRecord) bool { return p == u.pod })
		if len(u.vol.Pods) == 0 {
			u.vol.expansion.stop()
			m.state.Volumes = slices.DeleteFunc(m.state.Volumes, func(r *record) bool { return r == u.vol })
		}
	})
}

// unmountLimit limits one unmount: that of a network file system whose server is unreachable hangs.
const unmountLimit = 30 * time.Second

// unmount unmounts a path. It waits until what was written is with the driver's storage, but not forever.
func unmount(path string) error {
	done := make(chan error, 1)
	// It outlives this call only if the kernel waits for a server.
	go func() { done <- unix.Unmount(path, unix.UMOUNT_NOFOLLOW) }()
	select {
	case err := <-done:
		return err
	case <-time.After(unmountLimit):
		return fmt.Errorf("it takes more than %s", unmountLimit)
	}
}
