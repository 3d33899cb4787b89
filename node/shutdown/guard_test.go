package shutdown

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// host simulates logind and the pods of a host, with a journal of the calls and
// their effects, by the time since the start.
type host struct {
	t     *testing.T
	begun time.Time

	mu      sync.Mutex
	journal []string
	// absent: logind does not respond; preparing and stopping are the states
	// that it and systemd report; late: it grants no lock any more.
	absent, preparing, stopping, late bool
	// max is its InhibitDelayMaxSec, obeys reports whether it accepts a
	// longer one.
	max     time.Duration
	obeys   bool
	changes chan bool
	locks   int

	// takes is the time that a pod needs to terminate, priority its
	// priority; ended holds the terminated pods.
	takes    map[types.UID]time.Duration
	priority map[types.UID]int32
	ended    map[types.UID]chan struct{}
	log      bytes.Buffer
}

func newHost(t *testing.T) *host {
	return &host{
		t: t, begun: time.Now(), max: time.Hour, obeys: true,
		takes: map[types.UID]time.Duration{}, priority: map[types.UID]int32{}, ended: map[types.UID]chan struct{}{},
	}
}

func (h *host) note(format string, args ...any) {
	h.journal = append(h.journal, fmt.Sprintf("%v ", time.Since(h.begun).Round(time.Millisecond))+
		fmt.Sprintf(format, args...))
}

func (h *host) pod(name string, priority int32, takes time.Duration) {
	h.takes[types.UID(name)], h.priority[types.UID(name)] = takes, priority
}

// wantJournal compares the journal with the desired entries and clears it.
func (h *host) wantJournal(want ...string) {
	h.t.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Equal(h.journal, want) {
		h.t.Errorf("journal\n\t%s\nwant\n\t%s", strings.Join(h.journal, "\n\t"), strings.Join(want, "\n\t"))
	}
	h.journal = nil
}

func (h *host) Connect(context.Context) (Session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.absent {
		return nil, errors.New("no such file or directory")
	}
	h.changes = make(chan bool)
	return session1{h, h.changes}, nil
}

func (h *host) Stopping(context.Context) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stopping, nil
}

// session1 is one connection to the host's logind.
type session1 struct {
	h       *host
	changes chan bool
}

func (s session1) Changes() <-chan bool { return s.changes }
func (s session1) Close()               {}

func (s session1) Preparing(context.Context) (bool, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.preparing, nil
}

func (s session1) Inhibit(context.Context) (io.Closer, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	if s.h.late {
		return nil, ErrTooLate
	}
	s.h.locks++
	s.h.note("lock")
	return lock{s.h}, nil
}

func (s session1) MaxDelay(context.Context) (time.Duration, error) {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	return s.h.max, nil
}

func (s session1) Raise(_ context.Context, to time.Duration) error {
	s.h.mu.Lock()
	defer s.h.mu.Unlock()
	s.h.note("raise to %s", to)
	if s.h.obeys {
		time.AfterFunc(950*time.Millisecond, func() {
			s.h.mu.Lock()
			defer s.h.mu.Unlock()
			s.h.max = to
		})
	}
	return nil
}

type lock struct{ h *host }

func (l lock) Close() error {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.h.locks--
	l.h.note("unlock")
	return nil
}

func (h *host) BeginShutdown()  { h.mu.Lock(); defer h.mu.Unlock(); h.note("begin") }
func (h *host) CancelShutdown() { h.mu.Lock(); defer h.mu.Unlock(); h.note("return") }

func (h *host) RunningPriorities() map[types.UID]int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	live := map[types.UID]int32{}
	for uid, priority := range h.priority {
		select {
		case <-h.ended[uid]:
		default:
			live[uid] = priority
		}
	}
	return live
}

func (h *host) EndForShutdown(uids []types.UID, grace time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(uids)
	for _, uid := range uids {
		h.note("end %s within %s", uid, grace)
		ended := make(chan struct{})
		h.ended[uid] = ended
		time.AfterFunc(h.takes[uid], func() { close(ended) })
	}
}

func (h *host) WaitAllEnded(ctx context.Context, uids []types.UID) error {
	for _, uid := range uids {
		h.mu.Lock()
		ended := h.ended[uid]
		h.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// guarded runs a guard of the host in a synctest bubble.
func guarded(t *testing.T, policy Policy, prepare func(h *host), f func(t *testing.T, h *host, g *Guard)) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t)
		if prepare != nil {
			prepare(h)
		}
		log := slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		g := New(Config{Policy: policy, Logind: h, Pods: h, Log: log})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- g.Run(ctx) }()
		synctest.Wait()
		f(t, h, g)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if h.locks != 0 {
			t.Errorf("%d locks are held after the end", h.locks)
		}
	})
}

var threeGroups = Policy{{0, 20 * time.Second}, {1000, 10 * time.Second}, {CriticalPriority, 5 * time.Second}}

// The lowest priority terminates first; a group that has terminated early is
// not waited for, an empty one takes no time; the lock is released when all
// have terminated.
func TestGroupsEndInOrder(t *testing.T) {
	guarded(t, threeGroups, func(h *host) {
		h.pod("below", -5, time.Second)
		h.pod("usual", 0, 3*time.Second)
		h.pod("almost", 999, 2*time.Second)
		h.pod("critical", CriticalPriority+1000, time.Second)
	}, func(t *testing.T, h *host, _ *Guard) {
		h.wantJournal("0s lock")
		h.changes <- true
		time.Sleep(time.Minute)
		h.wantJournal("0s begin", "0s end almost within 20s", "0s end below within 20s", "0s end usual within 20s",
			"3s end critical within 5s", "4s unlock")
	})
}

// A group that exceeds its period delays neither the next one nor the shutdown
// beyond the announced time.
func TestGroupsOverrun(t *testing.T) {
	guarded(t, threeGroups, func(h *host) {
		h.pod("slow", 0, time.Hour)
		h.pod("late", 1000, 12*time.Second)
		h.pod("critical", CriticalPriority, time.Second)
	}, func(t *testing.T, h *host, _ *Guard) {
		h.wantJournal("0s lock")
		h.changes <- true
		time.Sleep(time.Minute)
		h.wantJournal("0s begin", "0s end slow within 20s", "20s end late within 10s", "30s end critical within 5s",
			"36s unlock")
		if text := h.log.String(); strings.Count(text, "period of their priority group") != 2 ||
			strings.Count(text, "Pods still running") != 1 {
			t.Errorf("log: %s", text)
		}
	})
}

// A cancelled shutdown restarts all pods, and the next one is handled again.
func TestCancelledShutdown(t *testing.T) {
	guarded(t, threeGroups, func(h *host) {
		h.pod("a", 0, 10*time.Second)
		h.pod("b", 1000, time.Second)
	}, func(t *testing.T, h *host, _ *Guard) {
		h.changes <- true
		time.Sleep(5 * time.Second)
		h.changes <- false
		h.wantJournal("0s lock", "0s begin", "0s end a within 20s", "5s unlock", "5s return", "5s lock")
		time.Sleep(10 * time.Second)
		h.wantJournal()
		h.mu.Lock()
		h.ended = map[types.UID]chan struct{}{}
		h.mu.Unlock()
		h.changes <- true
		time.Sleep(time.Minute)
		h.wantJournal("15s begin", "15s end a within 20s", "25s end b within 10s", "26s unlock")
		// A repeated signal has no effect.
		h.changes <- true
		time.Sleep(time.Second)
		h.wantJournal()
	})
}

// A restarted logind no longer knows of the shutdown, unless systemd is already
// stopping.
func TestLogindRestartsMeanwhile(t *testing.T) {
	for _, goesOn := range []bool{false, true} {
		guarded(t, threeGroups, func(h *host) { h.pod("a", 0, 10*time.Second) }, func(t *testing.T, h *host, _ *Guard) {
			h.changes <- true
			synctest.Wait()
			h.mu.Lock()
			h.stopping, h.late = goesOn, goesOn
			h.mu.Unlock()
			close(h.changes)
			time.Sleep(time.Minute)
			if goesOn {
				h.wantJournal("0s lock", "0s begin", "0s end a within 20s", "10s unlock")
			} else {
				h.wantJournal("0s lock", "0s begin", "0s end a within 20s", "1s unlock", "1s return", "1s lock")
			}
		})
	}
}

// After the connection is lost there is a new one with a new lock; the old lock
// is kept until then.
func TestReconnects(t *testing.T) {
	guarded(t, threeGroups, func(h *host) { h.pod("a", 0, time.Second) }, func(t *testing.T, h *host, _ *Guard) {
		h.wantJournal("0s lock")
		h.mu.Lock()
		h.absent = true
		h.mu.Unlock()
		close(h.changes)
		time.Sleep(10 * time.Second)
		h.wantJournal()
		h.mu.Lock()
		h.absent = false
		h.mu.Unlock()
		time.Sleep(time.Minute)
		h.wantJournal("15s lock", "15s unlock")
		h.changes <- true
		time.Sleep(time.Minute)
		h.wantJournal("1m10s begin", "1m10s end a within 20s", "1m11s unlock")
	})
}

// A daemon that starts during a shutdown terminates running pods, and takes no
// lock, for which logind would not wait.
func TestStartsDuringShutdown(t *testing.T) {
	guarded(t, threeGroups, func(h *host) {
		h.pod("a", 0, time.Second)
		h.preparing, h.late = true, true
	}, func(t *testing.T, h *host, _ *Guard) {
		time.Sleep(time.Minute)
		h.wantJournal("0s begin", "0s end a within 20s")
	})
}

// Without logind there is one warning, and pods still terminate when systemd
// stops the daemon because the host shuts down.
func TestWithoutLogind(t *testing.T) {
	guarded(t, threeGroups, func(h *host) {
		h.absent = true
		h.pod("a", 0, 3*time.Second)
		h.pod("b", 1000, time.Second)
	}, func(t *testing.T, h *host, g *Guard) {
		time.Sleep(10 * time.Minute)
		g.Finish(t.Context())
		h.wantJournal()
		h.mu.Lock()
		h.stopping = true
		h.mu.Unlock()
		g.Finish(t.Context())
		h.wantJournal("10m0s begin", "10m0s end a within 20s", "10m3s end b within 10s")
		if text := h.log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "no such file") {
			t.Errorf("log: %s", text)
		}
	})
}

// A daemon that is asked to stop while pods terminate waits for them; one that
// stops for another reason does not touch them.
func TestFinish(t *testing.T) {
	guarded(t, threeGroups, func(h *host) { h.pod("a", 0, 5*time.Second) }, func(t *testing.T, h *host, g *Guard) {
		g.Finish(t.Context())
		h.wantJournal("0s lock")
		h.changes <- true
		time.Sleep(time.Second)
		g.Finish(t.Context())
		if took := time.Since(h.begun); took != 5*time.Second {
			t.Errorf("Finish took until %s, want 5s", took)
		}
		h.wantJournal("0s begin", "0s end a within 20s", "5s unlock")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		g.Finish(ctx)
		if ctx.Err() != nil {
			t.Error("Finish waits for a shutdown that is complete")
		}
	})
}

// InhibitDelayMaxSec is raised if it is too short; a logind that ignores this
// is reported once and still gives its lock.
func TestRaisesTheDelay(t *testing.T) {
	for _, obeys := range []bool{true, false} {
		guarded(t, threeGroups, func(h *host) { h.max, h.obeys = 5*time.Second, obeys },
			func(t *testing.T, h *host, _ *Guard) {
				time.Sleep(time.Minute)
				if obeys {
					h.wantJournal("0s raise to 40s", "1s lock")
				} else {
					h.wantJournal("0s raise to 40s", "5s lock")
				}
				if warned := strings.Contains(h.log.String(), "InhibitDelayMaxSec"); warned == obeys {
					t.Errorf("log: %s", h.log.String())
				}
			})
	}
}

func TestPolicy(t *testing.T) {
	p := NewPolicy(90*time.Second, 30*time.Second)
	if p.Total() != 90*time.Second || p.group(CriticalPriority-1) != 0 || p.group(CriticalPriority) != 1 ||
		p.group(-1) != 0 {
		t.Errorf("%v", p)
	}
	if got := NewPolicy(0, 0); got != nil {
		t.Errorf("%v", got)
	}
	unsorted := Policy{{5, 1}, {-2_000_000_000, 2}, {2_000_000_000, 3}}
	if got := unsorted.Sorted(); got[0].Priority != -2_000_000_000 || got[2].Priority != 2_000_000_000 ||
		unsorted[0].Priority != 5 {
		t.Errorf("%v", got)
	}
	if got := (Policy{{Priority: 2_000_000_000}, {Priority: -2_000_000_000}}).Sorted(); got[0].Priority > 0 {
		t.Errorf("priorities that differ by more than 32 bits: %v", got)
	}
}
