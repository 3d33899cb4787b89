package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// elapsing is a line that tells how long something takes.
type Timer struct {
	started     time.Time
	stop, ended chan struct{}
}

// elapse writes what is waited for, with the time that it has taken where w is a
// terminal.
func StartTimer(w io.Writer, what string) *Timer {
	l := &Timer{started: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		_, _ = fmt.Fprintln(w, what)
		close(l.ended)
		return l
	}
	go l.draw(w, what)
	return l
}

// eraseLine goes to the line's begin and clears it.
const eraseLine = "\r\x1b[K"

func (l *Timer) draw(w io.Writer, what string) {
	defer close(l.ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		_, _ = fmt.Fprintf(w, "%s%s … %s", eraseLine, what, time.Since(l.started).Truncate(time.Second))
		select {
		case <-l.stop:
			_, _ = io.WriteString(w, eraseLine)
			return
		case <-tick.C:
		}
	}
}

// end takes the line away and returns how long it was there.
func (l *Timer) Stop() time.Duration {
	close(l.stop)
	<-l.ended
	return time.Since(l.started)
}
