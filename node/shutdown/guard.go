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

// settle is what is left after the last group's time for what its SIGKILL has
// to do: unmount, stop sandboxes.
const killTime = 5 * time.Second

// The pace at which logind is looked for while it does not answer. The kubelet
// tries each second for ever; where there is no logind that is for nothing.
const (
	retryMin = time.Second
	retryMax = time.Minute
)

// raised is how long logind has to take up a longer delay.
const (
	raiseTimeout      = 5 * time.Second
	raisePollInterval = 100 * time.Millisecond
)

// Logind is the host's. Implemented by SystemLogind.
type Logind interface {
	Connect(ctx context.Context) (Session, error)
	// Stopping reports whether the host is going down now.
	Stopping(ctx context.Context) (bool, error)
}

// Session is a connection to one logind. Close ends it, and no lock.
type Session interface {
	// Inhibit takes a lock for which logind waits before it lets the host go
	// down. It is ErrTooLate while it does not wait for new ones.
	Inhibit(ctx context.Context) (io.Closer, error)
	// Preparing reports whether the host is about to go down.
	Preparing(ctx context.Context) (bool, error)
	// MaxDelay is how long logind waits for locks at most; Raise asks it to
	// wait longer, which it takes up later.
	MaxDelay(ctx context.Context) (time.Duration, error)
	Raise(ctx context.Context, to time.Duration) error
	// Changes tell that the host is about to go down, and that it does not
	// after all. The channel is closed when the connection or logind is gone.
	Changes() <-chan bool
	Close()
}

// ErrTooLate is that of a lock that logind would not wait for.
var ErrTooLate = errors.New("the host is already shutting down")

// Pods are the workers. Implemented by supervisor.Supervisor.
type Pods interface {
	// BeginShutdown lets no pod start from here on. CancelShutdown lets them,
	// and all that ended for the shutdown too.
	BeginShutdown()
	CancelShutdown()
	// Live are the pods that have not ended, with their priorities.
	RunningPriorities() map[types.UID]int32
	// EndForShutdown has pods end, each within its own grace period or the
	// given one if that is less. It does not wait; AwaitEnded does, until all
	// have ended or ctx has, which then is its error.
	EndForShutdown(uids []types.UID, grace time.Duration)
	WaitAllEnded(ctx context.Context, uids []types.UID) error
}

// Config is what a Guard is made of.
type Config struct {
	// Policy has one group at least, by ascending priority.
	Policy Policy
	Logind Logind
	Pods   Pods
	// Log is where it logs; nil logs nothing.
	Log *slog.Logger
}

// Guard lets pods end in order before the host goes down.
type Guard struct {
	cfg Config

	mu sync.Mutex
	// lock is the one at logind, nil if there is none.
	lock io.Closer
	// ending is the end of all pods that is under way or done, nil if none is.
	termination *termination
	loggedErr   string
}

// ending is one end of all pods.
type termination struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// New makes a guard, which starts nothing.
func New(cfg Config) *Guard {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Guard{cfg: cfg}
}

// Patience is how long Finish may take.
func (g *Guard) MaxDuration() time.Duration { return g.cfg.Policy.Total() + killTime }

// Run keeps the lock and ends pods when the host is about to go down, until ctx
// ends, which ends no pod. Where there is no logind it looks for one now and
// then.
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

// Finish ends the pods if the host is going down now, unless that has been done
// or is under way, and returns when it is done or ctx ends. It is for a daemon
// that is asked to end: systemd goes down without asking logind when somebody
// presses Ctrl-Alt-Del or starts its target by hand.
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

// attend serves one connection, and returns why it is over.
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

// calledOff takes back the end of the pods, since logind knows of none: it was
// restarted meanwhile, unless the host is really going down.
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

// hold takes the lock, and has logind wait for it as long as all groups need.
func (g *Guard) hold(ctx context.Context, s Session) error {
	if err := g.raise(ctx, s); err != nil {
		g.cfg.Log.Warn("systemd-logind does not wait long enough for pods to terminate; increase InhibitDelayMaxSec in logind.conf, or shorten the periods. Remaining pods have until systemd stops podstead",
			"needs", g.MaxDuration(), "error", err)
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
		// It began meanwhile.
		return lock.Close()
	}
	if old := g.lock; old != nil {
		_ = old.Close() // of a logind that is gone, or the same once more
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
	look := time.NewTicker(raisePollInterval)
	defer look.Stop()
	for {
		// It says nothing when it has read its configuration.
		if is, err = s.MaxDelay(ctx); err != nil || is >= need {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("InhibitDelayMaxSec is %s", is)
		case <-look.C:
		}
	}
}

// tell logs what is wrong, once, or that it is no more.
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
		// While the host goes down so do D-Bus and logind. One that was
		// restarted is there again at the next look.
	case g.loggedErr == "":
		g.loggedErr = err.Error()
		g.cfg.Log.Warn("Graceful node shutdown unavailable, retrying; on shutdown, pods have until systemd stops podstead", "err", err)
	}
}

// down reports whether pods end, or have ended, for a shutdown.
func (g *Guard) terminating() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.termination != nil
}

// begin begins to end the pods, unless that has begun.
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
	// It goes on when the connection is lost, and ends with Run.
	go func() {
		defer close(e.done)
		g.terminateAll(ctx)
		g.release()
	}()
	return e
}

// cancel takes back the end of the pods.
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

// stop breaks the end of the pods off, if there is one. What is being ended
// goes on to end.
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

// leave is the end of Run.
func (g *Guard) close() {
	g.stopTermination()
	g.release()
}

// release gives the lock back, so that logind goes on.
func (g *Guard) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lock != nil {
		_ = g.lock.Close()
		g.lock = nil
	}
}
