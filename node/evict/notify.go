package evict

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/wakeup"
	"github.com/podstead/podstead/node/cgroup"
)

// Notifier lets the kernel notify about memory pressure.
//
// On cgroup v1 that is an event when the usage of a cgroup crosses a number of
// bytes; Arm moves the number as the page cache changes. On v2 it is a trigger on
// pressure stall information, if the kernel has that: it reports that a process
// waits for memory, not how much is left, so that the receiver must also check
// near the threshold.
type Notifier struct {
	short wakeup.Signal

	mu     sync.Mutex
	events map[string]*usageEvent // by directory
	closed bool
	wg     sync.WaitGroup
}

// usageEvent is one registered event of the kernel.
type usageEvent struct {
	usage     *counters
	threshold int64
	event     *os.File // nil if it is not registered
}

func (a *usageEvent) disarm() {
	if a.event != nil {
		_ = a.event.Close()
		a.event = nil
	}
}

// NewNotifier creates a notifier. It registers nothing yet.
func NewNotifier() *Notifier {
	return &Notifier{short: wakeup.NewSignal(), events: map[string]*usageEvent{}}
}

// C receives when memory may be short.
func (n *Notifier) C() <-chan struct{} { return n.short.C() }

// rearmDivisor is the part of the margin, as a divisor, by which the number must
// move before the event is registered again, and minRearmBytes the minimum in
// bytes.
const (
	rearmDivisor  = 32
	minRearmBytes = 1 << 20
)

// Arm requests a notification when a v1 cgroup uses margin more bytes than now. It
// returns an error if the kernel cannot notify.
func (n *Notifier) Arm(c cgroup.MemoryCgroup, margin int64) error {
	if c.V2 || c.Directory == "" {
		return errors.ErrUnsupported
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return os.ErrClosed
	}
	a := n.events[c.Directory]
	if a == nil {
		a = &usageEvent{usage: openCounters(filepath.Join(c.Directory, "memory.usage_in_bytes"), "")}
		n.events[c.Directory] = a
	}
	usage, err := a.usage.read()
	if err != nil {
		a.disarm()
		return err
	}
	at := usage[0] + margin
	if moved := at - a.threshold; a.event != nil && max(moved, -moved) < max(margin/rearmDivisor, minRearmBytes) {
		return nil
	}
	event, err := register(c.Directory, a.usage.path, at)
	a.disarm()
	if err != nil {
		return err
	}
	a.threshold, a.event = at, event
	n.wg.Go(func() {
		buffer := make([]byte, 8)
		for {
			if _, err := event.Read(buffer); err != nil {
				return // closed
			}
			n.short.Notify()
		}
	})
	return nil
}

// disarm removes the event of a cgroup.
func (n *Notifier) disarm(dir string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a := n.events[dir]; a != nil {
		a.disarm()
	}
}

// register lets the kernel write to a new eventfd when the value of a cgroup file
// crosses a number, in either direction.
func register(dir, file string, at int64) (*os.File, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("failed to create eventfd: %w", err)
	}
	// Non-blocking, so that the Go runtime waits, and Close ends the wait.
	event := os.NewFile(uintptr(fd), "eventfd")
	watched, err := os.Open(file)
	if err == nil {
		defer watched.Close()
		err = os.WriteFile(filepath.Join(dir, "cgroup.event_control"), fmt.Appendf(nil, "%d %d %d", fd, watched.Fd(), at), 0)
	}
	if err != nil {
		_ = event.Close()
		return nil, fmt.Errorf("failed to register for memory events: %w", err)
	}
	return event, nil
}

// stallDivisor is the part of a window, as a divisor, for which a process must
// have waited for memory before the kernel notifies.
const stallDivisor = 10

// stallWindows are tried in this order: without CAP_SYS_RESOURCE the kernel
// accepts only multiples of two seconds (Linux 6.5; none before).
var stallWindows = []time.Duration{time.Second, 2 * time.Second}

// WatchPressure monitors the pressure stall information of a cgroup, or of the
// machine, until ctx ends. It returns an error if the kernel has none.
func (n *Notifier) WatchPressure(ctx context.Context, file string) error {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("failed to monitor %s: %w", file, err)
	}
	defer unix.Close(fd)
	if err := trigger(func(text []byte) (int, error) { return unix.Write(fd, text) }); err != nil {
		return fmt.Errorf("failed to monitor %s: %w", file, err)
	}
	return n.listen(ctx, fd, file)
}

// trigger sets the shortest window that the kernel accepts.
func trigger(write func([]byte) (int, error)) (err error) {
	for _, window := range stallWindows {
		text := fmt.Sprintf("some %d %d\x00", (window / stallDivisor).Microseconds(), window.Microseconds())
		if _, err = write([]byte(text)); err == nil {
			return nil
		}
	}
	return err
}

// listen notifies on each event of a descriptor until ctx ends or the file is
// removed.
func (n *Notifier) listen(ctx context.Context, fd int, file string) error {
	end, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(end)
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_, _ = unix.Write(end, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		close(stopped)
	})
	defer func() {
		if !stop() {
			<-stopped // before its descriptor is closed
		}
	}()
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}, {Fd: int32(end), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		switch {
		case fds[0].Revents&unix.POLLERR != 0:
			return fmt.Errorf("%s was removed", file)
		case fds[0].Revents&unix.POLLPRI != 0:
			n.short.Notify()
		}
	}
	return ctx.Err()
}

// Close removes all events and waits for their goroutines.
func (n *Notifier) Close() {
	n.mu.Lock()
	n.closed = true
	for _, a := range n.events {
		a.disarm()
		a.usage.close()
	}
	clear(n.events)
	n.mu.Unlock()
	n.wg.Wait()
}
