package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"
)

// Output passes messages on and remembers whether that works. A logger writes one message
// at a time.
type Output struct {
	// To is where messages go.
	To io.Writer
	// since is when the write in progress began; nil while there is none.
	since atomic.Pointer[time.Time]
	// failure is the error of the last write.
	failure atomic.Pointer[error]
}

// timeout is how long a write may take before the log is not healthy: the other
// end of the pipe is not read, and the daemon waits.
const timeout = 10 * time.Second

// Write implements io.Writer.
func (l *Output) Write(b []byte) (int, error) {
	now := time.Now()
	l.since.Store(&now)
	n, err := l.To.Write(b)
	l.since.Store(nil)
	l.failure.Store(&err)
	return n, err
}

// Check returns why messages are not logged, nil if they are.
func (l *Output) Check() error {
	if since := l.since.Load(); since != nil && time.Since(*since) > timeout {
		return fmt.Errorf("standard error is blocked: a message could not be written for %v; read what it is connected to",
			time.Since(*since).Truncate(time.Second))
	}
	if failure := l.failure.Load(); failure != nil && *failure != nil {
		return fmt.Errorf("the last message could not be written to standard error: %w", *failure)
	}
	return nil
}

// New creates a logger to out, which passes messages on to stderr. The format is json, text (without colours), or
// empty: with colours on a terminal, and without the time under journald, which adds its own.
func New(out io.Writer, format string, debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level}))
	}
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	t := &tint.Options{Level: level, NoColor: !terminal || format == "text" || os.Getenv("NO_COLOR") != "",
		TimeFormat: time.RFC3339}
	if terminal {
		t.TimeFormat = time.TimeOnly
	} else if os.Getenv("JOURNAL_STREAM") != "" {
		t.ReplaceAttr = withoutTime
	}
	return slog.New(tint.NewTextHandler(out, t))
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
