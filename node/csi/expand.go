package csi

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/podstead/podstead/internal/csivolume"
)

const (
	methodExpand = "NodeExpandVolume"
	// maxExpandBackoff limits the time between two calls for an expansion that fails. It begins at the time
	// after which drivers are called again for published volumes.
	maxExpandBackoff = 10 * time.Minute
)

// failedExpansion is an expansion that failed. Each sync of a pod asks for it again.
type failedExpansion struct {
	bytes   int64
	err     error
	next    time.Time
	backoff time.Duration
	// retry lets the pod be synced at next.
	retry *time.Timer
}

// Expand lets a driver expand a volume that is published for a pod to its capacity in bytes, and reports
// whether it has done so now. The driver is not called for a capacity that the volume has already, nor if it
// has nothing to do on the node, nor soon after it has failed; the pod is synced when it can be called
// again. The error is csivolume.ErrInfeasible if the driver refuses the expansion for good.
func (m *Manager) Expand(ctx context.Context, v *csivolume.Volume, bytes int64) (expanded bool, err error) {
	r, p, capacity := m.publishedFor(v)
	switch {
	case p == nil:
		return false, fmt.Errorf("volume %s of CSI driver %s is not published", v.Handle, v.Driver)
	case capacity >= bytes:
		return false, nil // also if the driver is not there
	}
	d, err := m.driverFor(v.Driver)
	if err != nil {
		m.await(v.Driver, v.Pod)
		return false, err
	}
	if !d.capabilities[capabilityExpand] {
		return false, nil
	}
	unlock, err := m.lock(ctx, v.Driver, v.Handle)
	if err != nil {
		return false, err
	}
	defer unlock()
	// Another pod may have had it expanded meanwhile.
	switch r, p, capacity = m.publishedFor(v); {
	case p == nil || capacity >= bytes:
		return false, nil
	case r.expansion.waits(bytes):
		return false, r.expansion.err
	}
	request := &expandRequest{volumeID: v.Handle, path: p.Target, stagingPath: r.StagingPath, bytes: bytes, capability: d.capability(v)}
	if v.ExpandSecret != nil {
		if request.secrets, err = v.ExpandSecret(); err != nil {
			return false, err // the pod is synced when it changes
		}
	}
	if err := d.call(ctx, methodExpand, request, &empty{}); err != nil {
		if ctx.Err() == nil {
			m.expandLater(v, r, bytes, err)
		}
		return false, err
	}
	r.expansion.stop()
	r.expansion = nil
	// Without the record the driver is called again after a restart, which changes nothing.
	_ = m.update(func() { r.Capacity = bytes })
	return true, nil
}

// publishedFor returns the records of a volume that is published for a pod, nil if it is not, and the capacity that the
// volume is known to have.
func (m *Manager) publishedFor(v *csivolume.Volume) (*record, *podRecord, int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == nil {
		return nil, nil, 0
	}
	r := m.state.find(v.Driver, v.Handle)
	if r == nil {
		return nil, nil, 0
	}
	p := r.pod(v.Pod, v.Name)
	if p == nil || !p.Published {
		return nil, nil, 0
	}
	return r, p, cmp.Or(r.Capacity, v.Capacity)
}

// waits reports whether the driver is not to be called yet.
func (f *failedExpansion) waits(bytes int64) bool {
	return f != nil && f.bytes == bytes && time.Now().Before(f.next)
}

// expandLater lets the pod be synced when the driver can be called again.
func (m *Manager) expandLater(v *csivolume.Volume, r *record, bytes int64, err error) {
	backoff := m.options.Republish
	if r.expansion != nil && r.expansion.bytes == bytes {
		backoff = min(2*r.expansion.backoff, max(maxExpandBackoff, backoff))
	}
	r.expansion.stop()
	r.expansion = &failedExpansion{bytes: bytes, err: err, next: time.Now().Add(backoff), backoff: backoff, retry: m.readyAfter(v.Pod, backoff)}
}

func (f *failedExpansion) stop() {
	if f != nil {
		f.retry.Stop()
	}
}
