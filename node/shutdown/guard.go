package shutdown

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// killTime is what remains after the period of the last group for the work that
// follows its SIGKILL: unmount, stop sandboxes.
const killTime = 5 * time.Second

// The delays between connection attempts to logind. The kubelet tries every second
// forever; without logind that is useless.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// raiseTimeout is how long logind has to apply a longer delay.
const (
	raiseTimeout      = 5 * time.Second
	raisePollInterval = 100 * time.Millisecond
)

// Logind is the host's logind. Implemented by SystemLogind.
type Logind interface {
	Connect(ctx context.Context) (Session, error)
	// Stopping reports whether the host is shutting down now.
	Stopping(ctx context.Context) (bool, error)
}

// Session is a connection to logind. Close ends it, but releases no lock.
type Session interface {
	// Inhibit takes a lock that delays the shutdown of the host. It returns
	// ErrTooLate once logind accepts no more locks.
	Inhibit(ctx context.Context) (io.Closer, error)
	// Preparing reports whether the host is about to shut down.
	Preparing(ctx context.Context) (bool, error)
	// MaxDelay returns how long logind waits for locks at most; Raise requests a
	// longer time, which logind applies later.
	MaxDelay(ctx context.Context) (time.Duration, error)
	Raise(ctx context.Context, to time.Duration) error
	// Changes receives true when the host is about to shut down and false when that
	// was cancelled. It is closed when the connection or logind is gone.
	Changes() <-chan bool
	Close()
}

// ErrTooLate reports that logind would not wait for a lock.
var ErrTooLate = errors.New("the host is already shutting down")

// Pods are the pod workers. Implemented by supervisor.Supervisor.
type Pods interface {
	// BeginShutdown lets no pod start from now on. CancelShutdown allows it again,
	// and restarts the pods that were terminated for the shutdown.
	BeginShutdown()
	CancelShutdown()
	// RunningPriorities returns the priorities of the pods that have not
	// terminated.
	RunningPriorities() map[types.UID]int32
	// EndForShutdown terminates pods, each within its own grace period or the given
	// one if that is shorter. It does not wait; WaitAllEnded does, until all have
	// terminated, or returns the error of ctx.
	EndForShutdown(uids []types.UID, grace time.Duration)
	WaitAllEnded(ctx context.Context, uids []types.UID) error
}

// Config configures a Guard.
type Config struct {
	// Policy has at least one group, by ascending priority.
	Policy Policy
	Logind Logind
	Pods   Pods
	// Log may be nil.
	Log *slog.Logger
}

// Guard terminates pods in order before the host shuts down.
type Guard struct {
	cfg Config

	mu sync.Mutex
	// lock is the inhibitor lock, nil if there is none.
	lock io.Closer
	// termination is the termination of all pods that is in progress or done, nil
	// if there is none.
	termination *termination
	loggedErr   string
}

// termination is one termination of all pods.
type termination struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New creates a guard. It starts nothing.
func New(cfg Config) *Guard {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Guard{cfg: cfg}
}

// MaxDuration returns how long Finish may take.
func (g *Guard) MaxDuration() time.Duration { return g.cfg.Policy.Total() + killTime }

// Run holds the lock and terminates pods when the host is about to shut down,
// until ctx ends, which terminates no pod. Without logind it retries the
// connection.
func (g *Guard) Run(ctx context.Context) error {
	defer g.close()
	wait := retryMin
	for {
		begun := time.Now()
		err := g.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		g.logErr(err)
		if time.Since(begun) > retryMax {
			wait = retryMin
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		wait = min(2*wait, retryMax)
	}
}

// Finish terminates the pods if the host is shutting down now, unless that is done
// or in progress, and returns when it is done or ctx ends. It is for a daemon that
// receives SIGTERM: systemd shuts down without asking logind after Ctrl-Alt-Del,
// or when its target is started by hand.
func (g *Guard) Finish(ctx context.Context) {
	if !g.terminating() {
		stopping, err := g.cfg.Logind.Stopping(ctx)
		if err != nil {
			g.cfg.Log.Debug("Failed to ask systemd whether the host is shutting down", "err", err)
		}
		if !stopping {
			return
		}
	}
	e := g.startTermination()
	select {
	case <-e.done:
	case <-ctx.Done():
	}
}

// serve handles one connection and returns why it ended.
func (g *Guard) serve(ctx context.Context) error {
	s, err := g.cfg.Logind.Connect(ctx)
	if err != nil {
		return fmt.Errorf("failed to connect to systemd-logind: %w", err)
	}
	defer s.Close()
	preparing, err := s.Preparing(ctx)
	if err != nil {
		return fmt.Errorf("failed to ask systemd-logind whether the host is shutting down: %w", err)
	}
	switch {
	case preparing:
		g.startTermination()
	case g.terminating():
		if err := g.calledOff(ctx); err != nil {
			return err
		}
	}
	if err := g.hold(ctx, s); err != nil && !preparing {
		return err
	}
	g.logErr(nil)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case goesDown, ok := <-s.Changes():
			switch {
			case !ok:
				return errLost
			case goesDown:
				g.startTermination()
			default:
				g.cancel()
				if err := g.hold(ctx, s); err != nil {
					return err
				}
			}
		}
	}
}

var errLost = errors.New("lost the connection to systemd-logind")

// calledOff cancels the termination, since logind knows of no shutdown: logind was
// restarted, unless the host is really shutting down.
func (g *Guard) calledOff(ctx context.Context) error {
	stopping, err := g.cfg.Logind.Stopping(ctx)
	if err != nil {
		return fmt.Errorf("failed to ask systemd whether the host is shutting down: %w", err)
	}
	if !stopping {
		g.cancel()
	}
	return nil
}

// hold takes the lock, and makes logind wait as long as all groups need.
func (g *Guard) hold(ctx context.Context, s Session) error {
	if err := g.raise(ctx, s); err != nil {
		g.cfg.Log.Warn("systemd-logind does not wait long enough for pods to terminate; increase InhibitDelayMaxSec in "+
			"logind.conf, or shorten the periods. Remaining pods have until systemd stops podstead",
			"needed", g.MaxDuration(), "err", err)
	}
	lock, err := s.Inhibit(ctx)
	if errors.Is(err, ErrTooLate) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("failed to take the shutdown inhibitor lock: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.termination != nil {
		// A shutdown began meanwhile.
		return lock.Close()
	}
	if old := g.lock; old != nil {
		_ = old.Close() // of a previous logind, or a duplicate
	}
	g.lock = lock
	return nil
}

func (g *Guard) raise(ctx context.Context, s Session) error {
	need := g.MaxDuration()
	is, err := s.MaxDelay(ctx)
	if err != nil || is >= need {
		return err
	}
	if err := s.Raise(ctx, need); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, raiseTimeout)
	defer cancel()
	poll := time.NewTicker(raisePollInterval)
	defer poll.Stop()
	for {
		// logind does not report when it has read its configuration.
		if is, err = s.MaxDelay(ctx); err != nil || is >= need {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("InhibitDelayMaxSec is %s", is)
		case <-poll.C:
		}
	}
}

// logErr logs an error once, and when it is resolved.
func (g *Guard) logErr(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		if g.loggedErr != "" {
			g.cfg.Log.Info("Connected to systemd-logind, graceful node shutdown enabled")
		}
		g.loggedErr = ""
	case g.termination != nil, errors.Is(err, errLost):
		// While the host shuts down, D-Bus and logind stop as well. A logind that
		// was restarted responds at the next attempt.
	case g.loggedErr == "":
		g.loggedErr = err.Error()
		g.cfg.Log.Warn("Graceful node shutdown unavailable, retrying; on shutdown, pods have until systemd stops podstead",
			"err", err)
	}
}

// terminating reports whether pods terminate, or have terminated, for a shutdown.
func (g *Guard) terminating() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.termination != nil
}

// startTermination starts the termination of the pods, unless it has started.
func (g *Guard) startTermination() *termination {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.termination != nil {
		return g.termination
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &termination{cancel: cancel, done: make(chan struct{})}
	g.termination = e
	g.cfg.Pods.BeginShutdown()
	// It continues when the connection is lost, and ends with Run.
	go func() {
		defer close(e.done)
		g.terminateAll(ctx)
		g.release()
	}()
	return e
}

// cancel cancels the termination of the pods.
func (g *Guard) cancel() {
	if !g.stopTermination() {
		return
	}
	g.mu.Lock()
	g.termination = nil
	g.mu.Unlock()
	g.cfg.Log.Info("Host shutdown cancelled, restarting pods")
	g.cfg.Pods.CancelShutdown()
}

// stopTermination stops the termination, if there is one. Pods that are
// terminating continue to.
func (g *Guard) stopTermination() bool {
	g.mu.Lock()
	e := g.termination
	g.mu.Unlock()
	if e == nil {
		return false
	}
	e.cancel()
	<-e.done
	return true
}

// close ends Run.
func (g *Guard) close() {
	g.stopTermination()
	g.release()
}

// release releases the lock, so that logind continues.
func (g *Guard) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lock != nil {
		_ = g.lock.Close()
		g.lock = nil
	}
}
