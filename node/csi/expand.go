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

// expansion is what is known of the last expansion of a volume. It is not stored: after a restart the driver is called
// at once. It is guarded by the mutex.
type expansion struct {
	bytes int64
	// done is closed when the driver has responded. left: no sync of a pod waits for that.
	done chan struct{}
	left bool
	// expanded: the driver has expanded the volume, and Expand has not reported it yet. Else err is why it has not.
	expanded bool
	err      error
	// After a failure the driver is not called before next, when retry lets the pod be synced.
	next    time.Time
	backoff time.Duration
	retry   *time.Timer
}

// Expand lets a driver expand a volume that is published for a pod to its capacity in bytes, and reports
// whether it has done so since the last call. The driver is not called for a capacity that the volume has
// already, nor if it has nothing to do on the node, nor soon after it has failed; the pod is synced when it
// can be called again. The error is csivolume.ErrExpanding if the driver takes its time, which delays nothing else of
// the pod: it is synced when the driver has responded. The error is csivolume.ErrInfeasible if the driver refuses
// the expansion for good.
func (m *Manager) Expand(ctx context.Context, v *csivolume.Volume, bytes int64) (expanded bool, err error) {
	r, p := m.publishedFor(v)
	if p == nil {
		return false, notPublished(v)
	}
	if known, expanded, err := m.knownExpansion(v, r, bytes); known {
		return expanded, err
	}
	d, err := m.driverFor(v.Driver)
	if err != nil {
		m.await(v.Driver, v.Pod)
		return false, err
	}
	if !d.capabilities[capabilityExpand] {
		return false, nil
	}
	if v.ExpandBlocked != nil {
		return false, v.ExpandBlocked // the pod is synced when that changes
	}
	request := &expandRequest{volumeID: v.Handle, bytes: bytes, capability: d.capability(v), secrets: v.Secrets.Expand}
	unlock, err := m.lock(ctx, v.Driver, v.Handle)
	if err != nil {
		return false, err
	}
	// Another pod may have had it expanded meanwhile.
	if r, p = m.publishedFor(v); p == nil {
		unlock()
		return false, notPublished(v)
	}
	if known, expanded, err := m.knownExpansion(v, r, bytes); known {
		unlock()
		return expanded, err
	}
	request.path, request.stagingPath = p.Target, r.StagingPath
	e := m.beginExpansion(r, bytes)
	// It outlives the sync of the pod, and ends with the timeout of calls.
	go func() {
		defer unlock()
		m.endExpansion(v, r, e, d.call(context.WithoutCancel(ctx), methodExpand, request, &empty{}))
	}()
	limit := time.NewTimer(m.options.ExpandWait)
	defer limit.Stop()
	select {
	case <-e.done:
	case <-limit.C:
		m.leaveExpansion(e)
	case <-ctx.Done():
		m.leaveExpansion(e)
		return false, ctx.Err()
	}
	_, expanded, err = m.knownExpansion(v, r, bytes)
	return expanded, err
}

func notPublished(v *csivolume.Volume) error {
	return fmt.Errorf("volume %s of CSI driver %s is not published", v.Handle, v.Driver)
}

// publishedFor returns the records of a volume that is published for a pod, nil if it is not.
func (m *Manager) publishedFor(v *csivolume.Volume) (*record, *podRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.publishedRecords(v)
}

// publishedRecords is publishedFor for a caller that holds mu.
func (m *Manager) publishedRecords(v *csivolume.Volume) (*record, *podRecord) {
	if m.state == nil {
		return nil, nil
	}
	r := m.state.find(v.Driver, v.Handle)
	if r == nil {
		return nil, nil
	}
	if p := r.pod(v.Pod, v.Name); p != nil && p.Published {
		return r, p
	}
	return nil, nil
}

// knownExpansion returns the result of Expand if the driver is not to be called.
func (m *Manager) knownExpansion(v *csivolume.Volume, r *record, bytes int64) (known, expanded bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := r.expansion
	switch {
	case e.runs():
		return true, false, csivolume.ErrExpanding
	case cmp.Or(r.Capacity, v.Capacity) >= bytes:
		expanded = e != nil && e.expanded
		r.expansion = nil
		return true, expanded, nil
	case e != nil && e.bytes == bytes && time.Now().Before(e.next):
		return true, false, e.err
	}
	return false, false, nil
}

// runs reports whether the driver is being called.
func (e *expansion) runs() bool {
	if e == nil {
		return false
	}
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

// beginExpansion records that the driver is called.
func (m *Manager) beginExpansion(r *record, bytes int64) *expansion {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := &expansion{bytes: bytes, done: make(chan struct{})}
	if last := r.expansion; last != nil && last.bytes == bytes {
		e.backoff = last.backoff
	}
	r.expansion.stop()
	r.expansion = e
	return e
}

// leaveExpansion lets the pod be synced when the driver has responded.
func (m *Manager) leaveExpansion(e *expansion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.left = true
}

// endExpansion records how the driver has responded, and lets the pod be synced.
func (m *Manager) endExpansion(v *csivolume.Volume, r *record, e *expansion, failure error) {
	if failure == nil {
		// Without the record the driver is called again after a restart, which changes nothing.
		_ = m.update(func() { r.Capacity, e.expanded = e.bytes, true })
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if failure != nil {
		e.err, e.backoff = failure, max(m.options.Republish, min(2*e.backoff, maxExpandBackoff))
		e.next, e.retry = time.Now().Add(e.backoff), m.readyAfter(v.Pod, e.backoff)
	}
	close(e.done)
	if e.left {
		m.ready[v.Pod] = true
		m.notify()
	}
}

// stop ends the wait for the next call.
func (e *expansion) stop() {
	if e != nil && e.retry != nil {
		e.retry.Stop()
	}
}
