package runtimehealth

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/supervisor/pleg"
)

// The runtime is asked for its conditions every 5 s, as by the kubelet. While it is
// not healthy the period is 100 ms, doubling to 5 s, as the kubelet's sync loop backs
// off, so that a runtime that comes up is used at once.
const (
	period     = 5 * time.Second
	BackoffMin = 100 * time.Millisecond
	// versionPeriod is how long a version is believed. The kubelet asks for it every 10 s.
	versionPeriod = time.Minute
)

// Monitor asks the runtime for its conditions and keeps the last response. New makes
// one.
type Monitor struct {
	health   *cri.Client
	observer *pleg.PLEG
	log      *slog.Logger
	changed  wakeup.Signal

	mu      sync.Mutex
	fault   string    // why it is not healthy, empty if it is healthy
	since   time.Time // of the last change between healthy and not
	version cri.Version
	// versionAt is when the runtime was last asked for its version.
	versionAt time.Time
	network   bool
	netFault  string
	// responded is when the runtime responded last, and response why it was not healthy then.
	// silent is that it did not respond since.
	responded time.Time
	response  string
	silent    bool
}

const notAskedYet = "the runtime has not answered yet"

// New returns a monitor that has not asked yet: the runtime is not healthy until it
// has responded.
func New(h *cri.Client, o *pleg.PLEG, log *slog.Logger) *Monitor {
	return &Monitor{health: h, observer: o, log: log, changed: wakeup.NewSignal(), fault: notAskedYet}
}

// Run asks for the conditions until the context ends.
func (m *Monitor) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := BackoffMin
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		st, err := m.health.RuntimeStatus(ctx)
		if err == nil && m.maybeReplaced() {
			err = m.fetchVersion(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if m.note(st, err) {
			wait = BackoffMin
			timer.Reset(period)
			continue
		}
		timer.Reset(wait)
		wait = min(wait*2, period)
	}
}

// maybeReplaced reports whether the runtime may be of another version than the known one: it
// has not responded until now, or was not asked for long. An upgrade may take less time than
// there is between two questions.
func (m *Monitor) maybeReplaced() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.silent || time.Since(m.versionAt) >= versionPeriod
}

// fetchVersion fetches the runtime's name and version.
func (m *Monitor) fetchVersion(ctx context.Context) error {
	version, err := m.health.Version(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.version, m.versionAt = version, time.Now()
	return nil
}

// RuntimeName returns the runtime's name, empty before the runtime has responded.
func (m *Monitor) RuntimeName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.version.Name
}

// note records a response and reports whether runtime and network are ready. A
// change is logged once.
func (m *Monitor) note(st cri.RuntimeStatus, err error) bool {
	fault := ""
	switch {
	case err != nil:
		fault = err.Error()
	case !st.RuntimeReady:
		fault = "the runtime reports that it is not ready: " + st.RuntimeMessage
	case !m.observer.Observed().At.IsZero():
		if err := m.observer.Healthy(); err != nil {
			fault = err.Error()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	was, wasNetwork := m.fault, m.network
	m.fault = fault
	if m.since.IsZero() || (was == "") != (fault == "") {
		m.since = time.Now()
	}
	if m.silent = err != nil; !m.silent {
		m.responded, m.response = time.Now(), fault
		m.network, m.netFault = st.NetworkReady, st.NetworkMessage
	}
	switch {
	case fault != "" && (was == "" || was == notAskedYet):
		m.log.Warn("Container runtime is not healthy; running pods keep running", "err", fault)
	case fault == "" && was != "":
		m.log.Info("Container runtime is healthy")
	}
	if err == nil && wasNetwork != m.network && !m.network {
		m.log.Warn("Container runtime network is not ready", "err", m.netFault)
	}
	if (was == "") != (fault == "") || wasNetwork != m.network {
		m.changed.Notify()
	}
	return fault == "" && m.network
}

// Healthy reports whether the runtime can be used, and if not why.
func (m *Monitor) Healthy() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fault, m.fault == ""
}

// Away reports whether the runtime was asked and cannot be used.
func (m *Monitor) Away() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fault != "" && m.fault != notAskedYet
}

// NetworkReady reports whether pods can get a network, and if not why.
func (m *Monitor) NetworkReady() (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.netFault, m.network
}

// Changed receives after the result of Healthy or NetworkReady changed.
func (m *Monitor) Changed() <-chan struct{} { return m.changed.C() }

// Condition is the last known state of the runtime.
type Condition struct {
	// Version is zero before the runtime has responded.
	Version cri.Version
	// NotReady is why pods cannot run, empty if they can. Since is the time of the
	// last change.
	NotReady string
	Since    time.Time
	// responded is when a runtime that does not respond now responded last, zero if it
	// responds or never did; response is why pods could not run then.
	responded time.Time
	response  string
}

// silenceTolerated is how long a runtime may not respond before its node is not ready for
// its cluster, as at the kubelet: a runtime that is restarted or upgraded moves no pods.
const silenceTolerated = 30 * time.Second

// Tolerant returns the condition for the cluster at that time: of a runtime that does not
// answer, its last response counts for 30 s.
func (c Condition) Tolerant(now time.Time) Condition {
	if c.responded.IsZero() {
		return c
	}
	if end := c.responded.Add(silenceTolerated); now.Before(end) {
		c.NotReady = c.response
	} else {
		c.Since = end
	}
	return c
}

// Condition returns the last known state of the runtime.
func (m *Monitor) Condition() Condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := Condition{Version: m.version, NotReady: m.fault, Since: m.since}
	network := ""
	if !m.network {
		network = "container runtime network is not ready: " + m.netFault
	}
	if c.NotReady == "" {
		c.NotReady = network
	}
	if m.silent {
		c.responded, c.response = m.responded, cmp.Or(m.response, network)
	}
	return c
}
