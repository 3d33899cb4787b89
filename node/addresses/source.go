package addresses

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wakeup"
)

// Config configures a Source.
type Config struct {
	// Fixed are the configured addresses of the node, the primary one first.
	// Without any, the addresses are detected.
	Fixed []netip.Addr
	// IPv6First makes a detected IPv6 address the primary one.
	IPv6First bool
	// Log may be nil.
	Log *slog.Logger
}

// settleTime is the delay between a change and reading the tables: a network comes
// up in many steps.
const settleTime = 100 * time.Millisecond

// retryInterval is the delay after the kernel could not be asked.
const retryInterval = 5 * time.Second

// Source has the addresses of the node, and notifies about changes.
type Source struct {
	cfg     Config
	log     *slog.Logger
	changed wakeup.Signal
	// Tests replace read and watch.
	read  func() (tables, error)
	watch func() (watcher, error)

	mu    sync.Mutex
	addrs []netip.Addr
}

// watcher receives changes of the kernel's tables.
type watcher interface {
	// next waits for a change that concerns the given interfaces, or that may
	// change them. An error ends the watch.
	next(interfaces []int) error
	Close() error
}

// New creates a source. Detected addresses are known once it runs.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, log: cfg.Log, changed: wakeup.NewSignal(), read: readTables, watch: watchTables}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.addrs = slices.Clone(cfg.Fixed)
	return s
}

// Addresses returns the addresses of the node, the primary one first, at most one
// of each family; none while the node has no network. Detected addresses stay
// until others are found: unplugging a cable changes no pod's environment.
func (s *Source) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.addrs))
	for _, a := range s.addrs {
		list = append(list, a.String())
	}
	return list
}

// Changed notifies one receiver after the addresses changed.
func (s *Source) Changed() <-chan struct{} { return s.changed.C() }

// Run follows the network until the context ends. With fixed addresses it only
// waits.
func (s *Source) Run(ctx context.Context) error {
	if len(s.cfg.Fixed) > 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	failed := ""
	for ctx.Err() == nil {
		// A failure here must not end the daemon.
		if err := s.follow(ctx); err != nil && ctx.Err() == nil && err.Error() != failed {
			failed = err.Error()
			s.log.Warn("Failed to watch node addresses, retrying", "err", err)
		}
		retry.Sleep(ctx, retryInterval)
	}
	return ctx.Err()
}

// follow subscribes to changes, reads the tables, and reads them again after each
// change.
func (s *Source) follow(ctx context.Context) error {
	w, err := s.watch()
	if err != nil {
		return fmt.Errorf("failed to subscribe to route changes: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = w.Close() })
	defer func() {
		if stop() {
			_ = w.Close()
		}
	}()
	for {
		t, err := s.read()
		if err != nil {
			return fmt.Errorf("failed to read addresses and routes: %w", err)
		}
		s.set(choose(t, s.known(), s.cfg.IPv6First))
		if err := w.next(t.interfaces()); err != nil {
			return err
		}
		if !retry.Sleep(ctx, settleTime) {
			return ctx.Err()
		}
	}
}

func (s *Source) known() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs
}

// set applies detected addresses.
func (s *Source) set(found []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(found) == 0 || slices.Equal(found, s.addrs) {
		return
	}
	s.log.Info("Node addresses changed", "addresses", found)
	s.addrs = found
	s.changed.Notify()
}
