package dra

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc/connectivity"

	"github.com/podstead/podstead/node/plugins"
)

// Register implements plugins.Handler: it takes a DRA driver, whose connection it keeps and watches until the
// driver is deregistered. While a driver is updated, two of a name are registered.
func (m *Manager) Register(_ context.Context, p plugins.Plugin) (deregister func(), err error) {
	d, err := newDriver(p)
	if err != nil {
		return nil, err
	}
	m.add(d)
	m.changed.Notify()
	m.due.Notify()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m.watch(d)
	}()
	return func() {
		last := m.remove(d)
		_ = d.conn.Close()
		<-ended
		if last {
			m.log.Warn("DRA driver deregistered; its resource claims are not prepared until it registers again", "driver",
				d.name, "socket", d.socket)
		}
	}, nil
}

// watch keeps the connection to a driver until it is closed. The loss of a connection is reported by the
// kernel, so that a driver that has died is noticed although its socket is left, and nothing is asked meanwhile.
func (m *Manager) watch(d *driver) {
	for {
		state := d.conn.GetState()
		if state == connectivity.Shutdown {
			return
		}
		if state == connectivity.Idle { // at first, and after the connection was lost
			d.conn.Connect()
		}
		m.setConnected(d, state == connectivity.Ready)
		d.conn.WaitForStateChange(context.Background(), state)
	}
}

func (m *Manager) add(d *driver) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drivers[d.name] = append(m.drivers[d.name], d)
	m.noteAbsence(d.name)
}

// remove reports whether the driver has no other registration.
func (m *Manager) remove(d *driver) (last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drivers[d.name] = slices.DeleteFunc(m.drivers[d.name], func(o *driver) bool { return o == d })
	if len(m.drivers[d.name]) == 0 {
		delete(m.drivers, d.name)
		last = true
	}
	m.noteAbsence(d.name)
	return last
}

func (m *Manager) setConnected(d *driver, connected bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d.connected == connected || !slices.Contains(m.drivers[d.name], d) {
		return
	}
	d.connected = connected
	m.noteAbsence(d.name)
	if connected {
		m.log.Info("DRA driver connected", "driver", d.name, "socket", d.socket)
		m.changed.Notify()
		m.due.Notify()
		return
	}
	m.log.Warn("DRA driver disconnected, connecting again; its resource claims are not prepared meanwhile", "driver",
		d.name, "socket", d.socket)
}

// noteAbsence records since when a driver has no connection. m.mu must be held.
func (m *Manager) noteAbsence(name string) {
	switch _, known := m.absent[name]; {
	case m.connected(name):
		delete(m.absent, name)
	case !known && m.options.Slices != nil:
		m.absent[name] = time.Now()
		m.left.Notify()
	}
}

// connected reports whether a registration of a driver has a connection. m.mu must be held.
func (m *Manager) connected(name string) bool {
	return slices.ContainsFunc(m.drivers[name], func(d *driver) bool { return d.connected })
}

// driver returns the newest registration of a driver, if possible one with a connection; nil if there is none.
func (m *Manager) driver(name string) *driver {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.drivers[name]
	for _, d := range slices.Backward(all) {
		if d.connected {
			return d
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}
