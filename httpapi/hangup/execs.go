package hangup

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Execs are the sessions that go on.
type Execs struct {
	mu   sync.Mutex
	live []*Exec
}

// Exec is one session.
type Exec struct {
	all       *Execs
	container string
	args      []string
	begun     time.Duration
}

// Begin notes a session that is about to begin a command in a container, which
// goes on until End.
func (e *Execs) Begin(container string, args []string) *Exec {
	x := &Exec{all: e, container: container, args: args, begun: sinceBoot()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.live = append(e.live, x)
	return x
}

// End notes that the session is over, and its command with it.
func (x *Exec) End() {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	x.all.live = slices.DeleteFunc(x.all.live, func(o *Exec) bool { return o == x })
}

// others are the other sessions in the same container.
func (x *Exec) others() (found []*Exec) {
	x.all.mu.Lock()
	defer x.all.mu.Unlock()
	for _, o := range x.all.live {
		if o != x && o.container == x.container {
			found = append(found, o)
		}
	}
	return found
}

// sinceBoot is the clock by which the kernel notes when processes begin.
func sinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // never: the clock is there since Linux 2.6.39
	}
	return time.Duration(t.Nano())
}
