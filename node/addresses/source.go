package addresses

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Config is what a Source is made of.
type Config struct {
	// Fixed are the addresses of the node, the primary one first. Without any
	// they are found.
	Fixed []netip.Addr
	// IPv6First makes an IPv6 address that is found the primary one.
	IPv6First bool
	// Log is where changes are told; nil logs nothing.
	Log *slog.Logger
}

// settle is how long a change is let go on before the tables are read: a
// network that comes up does so in many steps.
const settleTime = 100 * time.Millisecond

// retry is when to look again after the kernel could not be asked.
const retryInterval = 5 * time.Second

// Source tells the addresses of the node, and when they changed.
type Source struct {
	cfg     Config
	log     *slog.Logger
	changed chan struct{}
	// The kernel: what it has, and how to hear of a change.
	read  func() (tables, error)
	watch func() (watcher, error)

	mu    sync.Mutex
	addrs []netip.Addr
}

// watcher hears of changes of the kernel's tables.
type watcher interface {
	// next waits for a change that concerns the given interfaces, or that may
	// lead to others. An error ends the watch.
	next(interfaces []int) error
	Close() error
}

// New makes a source. Addresses that are found are known once it runs.
func New(cfg Config) *Source {
	s := &Source{cfg: cfg, log: cfg.Log, changed: make(chan struct{}, 1), read: readTables, watch: watchTables}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.addrs = slices.Clone(cfg.Fixed)
	return s
}

// Addresses are the node's, the primary one first, one of each family at most;
// none while the node has no network. Addresses that were found stay until
// others are: a cable that is pulled out changes no pod's environment.
func (s *Source) Addresses() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]string, 0, len(s.addrs))
	for _, a := range s.addrs {
		list = append(list, a.String())
	}
	return list
}

// Changed wakes one reader after the addresses changed.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Run follows the network until the context ends. Fixed addresses need no Run,
// which then only waits.
func (s *Source) Run(ctx context.Context) error {
	if len(s.cfg.Fixed) > 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	failed := ""
	for ctx.Err() == nil {
		// The addresses are not worth the end of the daemon.
		if err := s.follow(ctx); err != nil && ctx.Err() == nil && err.Error() != failed {
			failed = err.Error()
			s.log.Warn("Failed to watch node addresses, retrying", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryInterval):
		}
	}
	return ctx.Err()
}

// follow subscribes, looks, and looks again after each change.
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settleTime):
		}
	}
}

func (s *Source) known() []netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs
}

// set takes over what was found.
func (s *Source) set(found []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(found) == 0 || slices.Equal(found, s.addrs) {
		return
	}
	s.log.Info("Node addresses changed", "addresses", found)
	s.addrs = found
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
