package csi

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/podstead/podstead/internal/csivolume"
)

// Republish calls the driver of a published volume again, if that is due; the pod is synced when it is. The
// volume stays published after an error.
func (m *Manager) Republish(ctx context.Context, v *csivolume.Volume) error {
	vol, pod := m.due(v)
	if pod == nil {
		return nil
	}
	// After a restart the driver and the cluster are not known at once; the pod is synced when they are.
	first := pod.repeatAt.IsZero()
	if first {
		m.await(v.Driver, v.Pod)
	}
	d, err := m.driverFor(v.Driver)
	if err != nil && first {
		return nil
	}
	called := false
	defer func() {
		// Also after an error: each sync of the pod would call the driver.
		if called || !first {
			m.repeatLater(pod)
		}
	}()
	if err != nil {
		return err
	}
	unlock, err := m.lock(ctx, v.Driver, v.Handle)
	if err != nil {
		return err
	}
	defer unlock()
	if v.PublishBlocked != nil {
		return v.PublishBlocked
	}
	called = true
	p := &publication{Manager: m, driver: d, volume: v, vol: vol, pod: pod}
	if err := p.call(ctx); err != nil {
		return err
	}
	return p.setGroup(ctx) // the driver may have made files
}

// due returns the records of a volume that is published and to be published again; nil if it is not.
func (m *Manager) due(v *csivolume.Volume) (*record, *podRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	vol, pod := m.publishedRecords(v)
	if pod == nil || time.Now().Before(pod.repeatAt) {
		return nil, nil
	}
	return vol, pod
}

// repeatLater lets the pod be synced when its volume is to be published again. The volumes of a node are
// not published all at once.
func (m *Manager) repeatLater(pod *podRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := m.options.Republish + rand.N(m.options.Republish/2+1)
	pod.repeatAt = time.Now().Add(after)
	if pod.repeat != nil {
		pod.repeat.Stop()
	}
	pod.repeat = m.readyAfter(pod.UID, after)
}
