package main

import (
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/podstead/podstead/cmd/podstead/options"
)

// newLog creates a logger to stderr: with colours on a terminal, and without the
// time under journald, which adds its own.
func newLog(o options.Log) *slog.Logger {
	level := slog.LevelInfo
	if o.Debug {
		level = slog.LevelDebug
	}
	if o.Format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	}
	terminal := term.IsTerminal(int(os.Stderr.Fd()))
	t := &tint.Options{Level: level, NoColor: !terminal || o.Format == "text" || os.Getenv("NO_COLOR") != "", TimeFormat: time.RFC3339}
	if terminal {
		t.TimeFormat = time.TimeOnly
	} else if os.Getenv("JOURNAL_STREAM") != "" {
		t.ReplaceAttr = withoutTime
	}
	return slog.New(tint.NewTextHandler(os.Stderr, t))
}

func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
