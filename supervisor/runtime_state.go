package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/pleg"
)

// The runtime is asked for its conditions every 5 s, as by the kubelet. While it is
// not healthy the period is 100 ms, doubling to 5 s, as the kubelet's sync loop backs
// off, so that a runtime that comes up is used at once.
const (
	runtimePeriod     = 5 * time.Second
	runtimeBackoffMin = 100 * time.Millisecond
)

// runtimeState is the last known state of the runtime.
type runtimeState struct {
	health   *cri.Client
	observer *pleg.PLEG
	log      *slog.Logger
	// changed receives after the result of healthy or networkReady changed.
	changed chan struct{}

	mu       sync.Mutex
	fault    string    // why it is not healthy, empty if it is healthy
	since    time.Time // of the last change between healthy and not
	version  cri.Version
	network  bool
	netFault string
}

const notAskedYet = "the runtime has not answered yet"

func newRuntimeState(h *cri.Client, o *pleg.PLEG, log *slog.Logger) *runtimeState {
	return &runtimeState{health: h, observer: o, log: log, changed: make(chan struct{}, 1), fault: notAskedYet}
}

// run asks for the conditions until the context ends.
func (s *runtimeState) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := runtimeBackoffMin
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		st, err := s.health.RuntimeStatus(ctx)
		if err == nil && s.runtimeName() == "" {
			err = s.fetchVersion(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if s.note(st, err) {
			wait = runtimeBackoffMin
			timer.Reset(runtimePeriod)
			continue
		}
		timer.Reset(wait)
		wait = min(wait*2, runtimePeriod)
	}
}

// fetchVersion fetches the runtime's name and version.
func (s *runtimeState) fetchVersion(ctx context.Context) error {
	version, err := s.health.Version(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version = version
	return nil
}

// runtimeName returns the runtime's name, empty before the runtime has answered.
func (s *runtimeState) runtimeName() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version.Name
}

// note records an answer and reports whether runtime and network are ready. A
// change is logged once.
func (s *runtimeState) note(st cri.RuntimeStatus, err error) bool {
	fault := ""
	switch {
	case err != nil:
		fault = err.Error()
	case !st.RuntimeReady:
		fault = "the runtime reports that it is not ready: " + st.RuntimeMessage
	case !s.observer.Observed().At.IsZero():
		if err := s.observer.Healthy(); err != nil {
			fault = err.Error()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, wasNetwork := s.fault, s.network
	s.fault = fault
	if s.since.IsZero() || (was == "") != (fault == "") {
		s.since = time.Now()
	}
	if err == nil {
		s.network, s.netFault = st.NetworkReady, st.NetworkMessage
	}
	switch {
	case fault != "" && (was == "" || was == notAskedYet):
		s.log.Warn("Container runtime is not healthy; running pods keep running", "err", fault)
	case fault == "" && was != "":
		s.log.Info("Container runtime is healthy")
	}
	if err == nil && wasNetwork != s.network && !s.network {
		s.log.Warn("Container runtime network is not ready", "err", s.netFault)
	}
	if (was == "") != (fault == "") || wasNetwork != s.network {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	return fault == "" && s.network
}

// healthy reports whether the runtime can be used, and if not why.
func (s *runtimeState) healthy() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault, s.fault == ""
}

// networkReady reports whether pods can get a network, and if not why.
func (s *runtimeState) networkReady() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.netFault, s.network
}

// RuntimeCondition is the last known state of the runtime.
type RuntimeCondition struct {
	// Version is zero before the runtime has answered.
	Version cri.Version
	// NotReady is why pods cannot run, empty if they can. Since is the time of the
	// last change.
	NotReady string
	Since    time.Time
}

// Runtime returns the last known state of the runtime.
func (s *Supervisor) Runtime() RuntimeCondition {
	s.runtime.mu.Lock()
	defer s.runtime.mu.Unlock()
	c := RuntimeCondition{Version: s.runtime.version, NotReady: s.runtime.fault, Since: s.runtime.since}
	if c.NotReady == "" && !s.runtime.network {
		c.NotReady = "container runtime network is not ready: " + s.runtime.netFault
	}
	if since, begun := s.shutdown.begun(); begun {
		c.NotReady, c.Since = nodeShutdownMessage, since
	}
	return c
}
