package streaming

import (
	"io"
	"sync/atomic"
	"time"
)

// guard is a writer that looks after the side it reads from while a write
// waits: then nobody reads what that side sends, its end included.
type guard struct {
	to      io.Writer
	alive   func() bool
	left    func()
	every   time.Duration
	timer   *time.Timer
	waiting atomic.Bool
}

func newGuard(to io.Writer, alive func() bool, left func(), every time.Duration) *guard {
	g := &guard{to: to, alive: alive, left: left, every: every}
	g.timer = time.AfterFunc(time.Hour, g.look)
	g.timer.Stop()
	return g
}

func (g *guard) look() {
	switch {
	case !g.waiting.Load():
	case g.alive():
		g.timer.Reset(g.every)
	default:
		g.left()
	}
}

func (g *guard) Write(b []byte) (int, error) {
	g.waiting.Store(true)
	g.timer.Reset(g.every)
	n, err := g.to.Write(b)
	g.waiting.Store(false)
	g.timer.Stop()
	return n, err
}
