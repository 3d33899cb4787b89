package hangup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

const (
	// apart is how long after another a session with the same command must have
	// begun for the two to be told apart.
	apart = 500 * time.Millisecond
	// patience is how long what was hung up may take to end.
	patience = 5 * time.Second
	// look is how often it is looked at meanwhile.
	look = 100 * time.Millisecond
)

// ErrUnclear says that more than one process may be the session's, so that
// none was ended.
var ErrUnclear = errors.New("more than one process may be meant")

// HangUp ends what the session runs, in the container whose first process is
// init. It returns when that has ended, or at once if it has already.
func (x *Exec) HangUp(ctx context.Context, init int) error {
	return x.hangUp(ctx, "/proc", init, patience)
}

func (x *Exec) hangUp(ctx context.Context, proc string, init int, patience time.Duration) error {
	all, err := inContainer(proc, init)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the container has ended
	}
	if err != nil {
		return err
	}
	leader, err := x.find(all, init)
	if err != nil || leader == nil {
		return err
	}
	signal(all, *leader, syscall.SIGHUP)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if all, err = inContainer(proc, init); err != nil || !hears(all, *leader) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
	signal(all, *leader, syscall.SIGKILL)
	return nil
}

// find is the process with which the session's command began, nil if it has
// ended.
func (x *Exec) find(all []process, init int) (*process, error) {
	// What came from outside leads a session of its own and has its parent
	// elsewhere.
	came := slices.DeleteFunc(slices.Clone(all), func(p process) bool {
		return p.pid == init || p.session != p.pid || p.begun < x.begun-tick ||
			slices.ContainsFunc(all, func(o process) bool { return o.pid == p.parent })
	})
	same := slices.DeleteFunc(slices.Clone(came), func(p process) bool { return !p.runs(x.args) })
	others := x.others()
	alike := slices.ContainsFunc(others, func(o *Exec) bool { return slices.Equal(o.args, x.args) })
	switch {
	case len(same) == 1 && !alike:
		return &same[0], nil
	case len(same) > 0:
		return x.byTurn(same, others)
	}
	// It has ended, or has become another one, as a shell does for its last
	// command: that cannot be told from what somebody else began meanwhile.
	return nil, nil
}

// byTurn tells sessions with the same command apart by the order in which they
// began, if there is a process for each.
func (x *Exec) byTurn(same []process, others []*Exec) (*process, error) {
	begun := []time.Duration{x.begun}
	for _, o := range others {
		if slices.Equal(o.args, x.args) && o.begun >= x.begun {
			begun = append(begun, o.begun)
		}
	}
	slices.Sort(begun)
	slices.SortFunc(same, func(a, b process) int { return int(a.begun - b.begun) })
	// The next one began clearly later.
	if len(begun) != len(same) || len(begun) > 1 && (begun[1]-begun[0] < apart || same[1].begun < begun[1]-tick || same[0].begun >= begun[1]) {
		return nil, fmt.Errorf("%w for %q", ErrUnclear, x.args)
	}
	return &same[0], nil
}

// of says whether a process belongs to the session that the leader began.
func (p process) of(leader process) bool { return p.session == leader.pid && p.begun >= leader.begun }

// hears says whether something of the session is left that does not ignore
// SIGHUP.
func hears(all []process, leader process) bool {
	return slices.ContainsFunc(all, func(p process) bool { return p.of(leader) && !p.deaf })
}

// signal goes to all of the session that do not ignore SIGHUP. A handle of each
// is taken first, so that none goes to another process with the same number.
func signal(all []process, leader process, s syscall.Signal) {
	for _, p := range all {
		if !p.of(leader) || p.deaf {
			continue
		}
		handle, err := os.FindProcess(p.pid)
		if err != nil {
			continue
		}
		if now, err := readProcess(fmt.Sprintf("/proc/%d", p.pid), p.pid); err == nil && now.begun == p.begun {
			_ = handle.Signal(s)
		}
		_ = handle.Release()
	}
}
