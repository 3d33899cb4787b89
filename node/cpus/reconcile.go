package cpus

import (
	"context"
	"maps"
	"time"
)

// retryDelay is the time after which a failed update of a container is tried again.
const retryDelay = 10 * time.Second

// unseenTimeout is how long a created container is remembered that no list has shown: it may
// have ended before.
const unseenTimeout = 5 * time.Minute

// Created records the CPUs that a container was created with.
func (m *Manager) Created(id, cpus string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied[id] = appliedSet{cpus, time.Now().Add(unseenTimeout)}
}

// Wake makes Run check the running containers: others run now.
func (m *Manager) Wake() { m.changed.Notify() }

// Run sets the CPUs of the running containers whenever the shared pool or the containers have
// changed, until ctx ends. It does nothing in between.
func (m *Manager) Run(ctx context.Context) error {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.changed.C():
		case <-retry:
		}
		retry = nil
		if !m.reconcile(ctx) {
			retry = time.After(retryDelay)
		}
	}
}

// update is a container that has other CPUs than it is to have.
type update struct{ id, cpus, container string }

// reconcile sets the CPUs of the running containers that have others, and reports whether all
// of them have theirs now.
func (m *Manager) reconcile(ctx context.Context) bool {
	complete := true
	for _, u := range m.updates() {
		err := m.cfg.Update(ctx, u.id, u.cpus)
		if ctx.Err() != nil {
			return true
		}
		if err != nil {
			m.cfg.Log.Warn("Failed to set the CPUs of a container, retrying", "container", u.container, "cpus", u.cpus, "err",
				err)
			complete = false
			continue
		}
		m.mu.Lock()
		m.applied[u.id] = appliedSet{cpus: u.cpus}
		m.mu.Unlock()
	}
	return complete
}

// updates returns what is to be changed, and forgets containers that have ended.
func (m *Manager) updates() (list []update) {
	running := m.cfg.Running()
	m.mu.Lock()
	defer m.mu.Unlock()
	ids, now := make(map[string]bool, len(running)), time.Now()
	for _, c := range running {
		ids[c.ID] = true
		set, _ := m.cpusOf(c.Pod, c.Name)
		has, known := m.applied[c.ID]
		if want := set.String(); !known || has.cpus != want {
			list = append(list, update{c.ID, want, c.Name})
		} else {
			m.applied[c.ID] = appliedSet{cpus: has.cpus}
		}
	}
	maps.DeleteFunc(m.applied, func(id string, has appliedSet) bool { return !ids[id] && now.After(has.until) })
	return list
}
