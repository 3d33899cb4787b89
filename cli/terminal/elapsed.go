package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// Timer is a line that shows how long an operation takes.
type Timer struct {
	started     time.Time
	stop, ended chan struct{}
}

// StartTimer prints the operation, with the elapsed time if w is a terminal.
func StartTimer(w io.Writer, operation string) *Timer {
	l := &Timer{started: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		_, _ = fmt.Fprintln(w, operation)
		close(l.ended)
		return l
	}
	go l.draw(w, operation)
	return l
}

// eraseLine moves to the start of the line and clears it.
const eraseLine = "\r\x1b[K"

func (l *Timer) draw(w io.Writer, operation string) {
	defer close(l.ended)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		_, _ = fmt.Fprintf(w, "%s%s … %s", eraseLine, operation, time.Since(l.started).Truncate(time.Second))
		select {
		case <-l.stop:
			_, _ = io.WriteString(w, eraseLine)
			return
		case <-tick.C:
		}
	}
}

// Stop removes the line and returns the elapsed time.
func (l *Timer) Stop() time.Duration {
	close(l.stop)
	<-l.ended
	return time.Since(l.started)
}
