package csi

import (
	"context"
	"fmt"
	"time"
)

// volumeLock is held during an operation on a volume.
type volumeLock struct {
	// token is a semaphore of one: it is full while an operation runs.
	token chan struct{}
	users int
}

// lock starts an operation on a volume. Another operation that does not end is an error: its driver
// hangs.
func (m *Manager) lock(ctx context.Context, driver, handle string) (unlock func(), err error) {
	key := driver + "\x00" + handle
	m.mu.Lock()
	l := m.locks[key]
	if l == nil {
		l = &volumeLock{token: make(chan struct{}, 1)}
		m.locks[key] = l
	}
	l.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(m.locks, key)
		}
	}
	limit := time.NewTimer(m.options.LockTimeout)
	defer limit.Stop()
	select {
	case l.token <- struct{}{}:
		return func() { <-l.token; leave() }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = fmt.Errorf("CSI driver %s has not ended another operation on volume %s; look at its pod's log, and restart "+
			"the pod", driver, handle)
	}
	leave()
	return nil, err
}
