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

// DefaultFile is where the kernel's log is read.
const DefaultFile = "/dev/kmsg"

// Config is what a Watcher is made of.
type Config struct {
	// File is DefaultFile if empty.
	File string
	// Tell hears of each kill, in order. It may take its time: the kernel keeps
	// what comes meanwhile.
	OnKill func(Kill)
	// Log takes one warning if the kernel's log cannot be read; nil takes none.
	Log *slog.Logger
}

// Watcher reads the kernel's log.
type Watcher struct {
	cfg Config
}

// New makes a watcher, which reads nothing yet.
func New(cfg Config) *Watcher {
	if cfg.File == "" {
		cfg.File = DefaultFile
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg}
}

// maxRecord is more than a record of the kernel's log can have, in bytes.
const maxRecord = 16 << 10

// Run tells of kills until the context ends. Without the right to read the
// kernel's log it warns and waits: nothing else depends on it.
func (w *Watcher) Run(ctx context.Context) error {
	// Not blocking, so that Go's poller waits for the next record, and Close
	// ends the waiting.
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

// read returns when no more can be read.
func (w *Watcher) read(f io.Reader) error {
	var p Parser
	record := make([]byte, maxRecord)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, unix.EPIPE):
			// The kernel has overwritten what was not read in time. The next
			// read goes on with the oldest that is left.
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
