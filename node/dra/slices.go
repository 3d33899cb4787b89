package dra

import (
	"context"
	"slices"
	"time"
)

// ResourceSlices deletes what drivers have published about the devices of this node.
type ResourceSlices interface {
	// DeleteResourceSlices deletes the ResourceSlices of this node, except those of some drivers.
	DeleteResourceSlices(ctx context.Context, except []string) error
}

// The delays between attempts to delete ResourceSlices, as at the kubelet.
const (
	minSliceRetry = time.Second
	maxSliceRetry = 5 * time.Minute
)

// DeleteSlices deletes the ResourceSlices of drivers without a connection until ctx ends: no scheduler shall
// give their devices to pods, which would only wait. A driver has SliceDelay to connect again. Unlike
// a kubelet, which deletes all slices when it starts, a new daemon gives drivers that time as well.
func (m *Manager) DeleteSlices(ctx context.Context) error {
	at, retry, logged := time.Now().Add(m.options.SliceDelay), minSliceRetry, ""
	overdue := true // the slices of drivers that left while no daemon ran
	for {
		var due <-chan time.Time
		if !at.IsZero() {
			due = time.After(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.left.C():
			if at.IsZero() {
				at = time.Now().Add(m.options.SliceDelay)
			}
			continue
		case <-due:
		}
		except, expired, next := m.spared(time.Now())
		overdue = overdue || expired
		var err error
		if overdue {
			err = m.options.Slices.DeleteResourceSlices(ctx, except)
		}
		if err == nil {
			at, retry, logged, overdue = next, minSliceRetry, "", false
			continue
		}
		if ctx.Err() == nil && logged != err.Error() {
			logged = err.Error()
			m.log.Warn("Failed to delete the ResourceSlices of DRA drivers that are not connected, retrying", "err", err)
		}
		at, retry = time.Now().Add(retry), min(2*retry, maxSliceRetry)
	}
}

// spared returns the drivers whose slices are kept: those that are connected, or that may connect again, and
// when the first of the latter is due; zero if there are none. expired: one more driver has not connected in time.
func (m *Manager) spared(now time.Time) (names []string, expired bool, next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.drivers {
		if m.connected(name) {
			names = append(names, name)
		}
	}
	for name, since := range m.absent {
		due := since.Add(m.options.SliceDelay)
		if !due.After(now) {
			delete(m.absent, name)
			expired = true
			continue
		}
		names = append(names, name)
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	slices.Sort(names)
	return names, expired, next
}
