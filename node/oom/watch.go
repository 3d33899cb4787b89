package oom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"
)

// DefaultFile is the kernel log.
const DefaultFile = "/dev/kmsg"

// Config configures a Watcher.
type Config struct {
	// File is DefaultFile if empty.
	File string
	// OnKill is called for each kill, in order. It may be slow: the kernel buffers
	// the log.
	OnKill func(Kill)
	// Log may be nil.
	Log *slog.Logger
}

// Watcher reads the kernel log.
type Watcher struct {
	cfg Config
}

// New creates a watcher. It reads nothing yet.
func New(cfg Config) *Watcher {
	if cfg.File == "" {
		cfg.File = DefaultFile
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg}
}

// maxRecord is more than the size of a record of the kernel log, in bytes.
const maxRecord = 16 << 10

// Run reports kills until the context ends. Without permission to read the kernel
// log it warns and waits: nothing else depends on it.
func (w *Watcher) Run(ctx context.Context) error {
	// Non-blocking, so that Go's poller waits for the next record, and Close ends
	// the wait.
	f, err := os.OpenFile(w.cfg.File, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		defer f.Close()
		_, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = f.Close() })
		defer stop()
		err = w.read(f)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hint := ""
	if errors.Is(err, os.ErrPermission) {
		hint = " (no CAP_SYSLOG)"
	}
	w.cfg.Log.Warn("Cannot read the kernel log"+hint+", out-of-memory kills are not reported as events", "err", err)
	<-ctx.Done()
	return ctx.Err()
}

// read returns when reading fails.
func (w *Watcher) read(f io.Reader) error {
	var p Parser
	record := make([]byte, maxRecord)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, unix.EPIPE):
			// The kernel has overwritten unread records. The next read continues
			// with the oldest one left.
			p = Parser{}
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("failed to read the kernel log: %w", err)
		}
		if kill, ok := p.Line(message(string(record[:n]))); ok {
			w.cfg.OnKill(kill)
		}
	}
}
