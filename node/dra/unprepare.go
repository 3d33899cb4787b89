package dra

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Unprepare gives back the claims of a pod of which nothing runs any more: drivers unprepare those that
// no other pod uses. Until it returns nil the pod has not ended, as at the kubelet. To repeat it is
// harmless, and without claims it does nothing. On a node that has left its cluster, no scheduler gives
// the devices to another pod, and a driver may never come back: what fails is then left to Run.
func (m *Manager) Unprepare(ctx context.Context, uid types.UID) error {
	m.setWaiting(uid, false)
	err := m.unprepare(ctx, uid)
	if err == nil || ctx.Err() != nil || m.options.Claims != nil {
		return err
	}
	m.mu.Lock()
	m.gone[uid] = true
	m.mu.Unlock()
	m.due.Notify()
	return nil
}

func (m *Manager) unprepare(ctx context.Context, uid types.UID) error {
	var faults []error
	for _, c := range m.claimsOf(uid) {
		if err := m.unprepareClaim(ctx, uid, c); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

func (m *Manager) claimsOf(uid types.UID) (list []*claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if c.pods[uid] {
			list = append(list, c)
		}
	}
	return list
}

func (m *Manager) unprepareClaim(ctx context.Context, uid types.UID, c *claim) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	m.mu.Lock()
	uses, last := c.pods[uid] && !c.removed, len(c.pods) == 1
	if uses && last {
		c.prepared = false // a part of it may be undone
	}
	if uses && !last {
		delete(c.pods, uid)
	}
	m.mu.Unlock()
	if !uses {
		return nil
	}
	if !last {
		return m.save()
	}
	for _, name := range c.drivers {
		d := m.driver(name)
		if d == nil {
			return fmt.Errorf("failed to unprepare ResourceClaim %s: the DRA driver %s is not registered on this node; the "+
				"pod ends when it has started again", c.key.Name, name)
		}
		if err := d.unprepare(ctx, c.message(), m.options.Timeout); err != nil {
			return err
		}
	}
	m.mu.Lock()
	delete(m.claims, c.key)
	c.removed = true
	m.mu.Unlock()
	m.changed.Notify() // a pod may wait for another claim of this name
	m.log.Info("Resource claim unprepared", "namespace", c.key.Namespace, "claim", c.key.Name, "uid", c.uid, "drivers",
		c.drivers)
	if err := m.save(); err != nil {
		// A later daemon unprepares it once more, which changes nothing.
		m.log.Warn("Failed to save prepared resource claims, retrying", "err", err)
	}
	return nil
}

// Retain lets Run unprepare the claims of all pods but those that keep reports: pods that were removed
// while no daemon ran.
func (m *Manager) Retain(keep func(types.UID) bool) {
	m.mu.Lock()
	users := map[types.UID]bool{}
	for _, c := range m.claims {
		for uid := range c.pods {
			users[uid] = true
		}
	}
	m.mu.Unlock()
	var gone []types.UID
	for uid := range users {
		if !keep(uid) {
			gone = append(gone, uid)
		}
	}
	if len(gone) == 0 {
		return
	}
	m.mu.Lock()
	for _, uid := range gone {
		m.gone[uid] = true
	}
	m.mu.Unlock()
	m.due.Notify()
}

// Run unprepares the claims of pods that are gone until ctx ends, each time a driver registers and
// after a delay.
func (m *Manager) Run(ctx context.Context) error {
	logged := map[types.UID]string{}
	for {
		var retry <-chan time.Time
		if m.unprepareGone(ctx, logged) {
			retry = time.After(m.options.RetryDelay)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.due.C():
		case <-retry:
		}
	}
}

// unprepareGone reports whether a pod is left. It logs each error once. The pods are unprepared at the
// same time, so that a driver that hangs delays only its own.
func (m *Manager) unprepareGone(ctx context.Context, logged map[types.UID]string) (left bool) {
	m.mu.Lock()
	var uids []types.UID
	for uid := range m.gone {
		uids = append(uids, uid)
	}
	m.mu.Unlock()
	faults := make([]error, len(uids))
	var calls sync.WaitGroup
	for i, uid := range uids {
		calls.Go(func() {
			m.setWaiting(uid, false)
			faults[i] = m.unprepare(ctx, uid)
		})
	}
	calls.Wait()
	if ctx.Err() != nil {
		return len(uids) > 0
	}
	for i, uid := range uids {
		if err := faults[i]; err != nil {
			left = true
			if logged[uid] != err.Error() {
				logged[uid] = err.Error()
				m.log.Warn("Failed to unprepare the resource claims of a pod that is gone, retrying", "uid", uid, "err", err)
			}
			continue
		}
		delete(logged, uid)
		m.mu.Lock()
		delete(m.gone, uid)
		m.mu.Unlock()
	}
	return left
}
