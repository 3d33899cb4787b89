package streaming

import (
	"io"
	"sync/atomic"
	"time"
)

// stallGuard is a writer that checks the side from which the data comes while a write
// blocks. Nothing is read from that side then, so that its disconnect would go
// unnoticed.
type stallGuard struct {
	to      io.Writer
	alive   func() bool
	onGone  func()
	every   time.Duration
	timer   *time.Timer
	blocked atomic.Bool
}

func newStallGuard(to io.Writer, alive func() bool, onGone func(), every time.Duration) *stallGuard {
	g := &stallGuard{to: to, alive: alive, onGone: onGone, every: every}
	g.timer = time.AfterFunc(time.Hour, g.check)
	g.timer.Stop()
	return g
}

func (g *stallGuard) check() {
	switch {
	case !g.blocked.Load():
	case g.alive():
		g.timer.Reset(g.every)
	default:
		g.onGone()
	}
}

func (g *stallGuard) Write(b []byte) (int, error) {
	g.blocked.Store(true)
	g.timer.Reset(g.every)
	n, err := g.to.Write(b)
	g.blocked.Store(false)
	g.timer.Stop()
	return n, err
}
