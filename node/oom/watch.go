package oom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultFile is the kernel log.
const DefaultFile = "/dev/kmsg"

// Config configures a Watcher.
type Config struct {
	// File is DefaultFile if empty.
	File string
	// Proc is /proc if empty.
	Proc string
	// Log may be nil.
	Log *slog.Logger
}

// Watcher reads the kernel log.
type Watcher struct {
	cfg    Config
	onKill func(Kill)
	// file is the opened kernel log after ReadHistory, nil before it and if it failed.
	file  *os.File
	parse Parser
	known history
}

// New creates a watcher. It reads nothing yet.
func New(cfg Config) *Watcher {
	if cfg.File == "" {
		cfg.File = DefaultFile
	}
	if cfg.Proc == "" {
		cfg.Proc = "/proc"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg, onKill: func(Kill) {}}
}

// OnKill sets what is called for each kill from now on, in order. It may be slow: the
// kernel buffers the log. It must be called before Run.
func (w *Watcher) OnKill(f func(Kill)) { w.onKill = f }

// Explains reports whether the kernel killed a process of the container for memory when
// the container ended. It is safe for concurrent use.
func (w *Watcher) Explains(containerID string, finished time.Time) bool {
	return w.known.explains(containerID, finished)
}

// maxRecord is more than the size of a record of the kernel log, in bytes.
const maxRecord = 16 << 10

// ReadHistory remembers the kills that the kernel log still has, so that Explains knows
// those from before a restart of the daemon. It does not wait. It is called at most once,
// before Run, which continues where it ended and reports an error.
func (w *Watcher) ReadHistory() {
	// Non-blocking, so that Go's poller waits for the next record, and Close ends
	// the wait.
	f, err := os.OpenFile(w.cfg.File, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	conn, err := f.SyscallConn()
	if err != nil {
		_ = f.Close()
		return
	}
	_ = w.readHistory(withoutWaiting{conn})
	w.file = f
}

// readHistory remembers the kills in the log. It returns when reading fails, also at the
// log's end.
func (w *Watcher) readHistory(f io.Reader) error {
	return w.read(f, func(k Kill, at, now time.Duration) {
		w.known.add(k, time.Now().Add(at-now), drift(now-at))
	})
}

// readOn remembers and reports kills as they happen, until reading fails.
func (w *Watcher) readOn(f io.Reader) error {
	return w.read(f, func(k Kill, _, _ time.Duration) {
		if k.Cgroup == "" {
			k.Cgroup = cgroupOf(w.cfg.Proc, k)
		}
		w.known.add(k, time.Now(), 0)
		w.onKill(k)
	})
}

// Run reports kills until the context ends. Without permission to read the kernel
// log it warns and waits: nothing else depends on it.
func (w *Watcher) Run(ctx context.Context) error {
	f, err := w.file, error(nil)
	if f == nil {
		f, err = os.OpenFile(w.cfg.File, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = f.Seek(0, io.SeekEnd)
		}
	}
	if f != nil {
		defer f.Close()
	}
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = f.Close() })
		defer stop()
		err = w.readOn(f)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	hint := ""
	if errors.Is(err, os.ErrPermission) {
		hint = " (no CAP_SYSLOG)"
	}
	w.cfg.Log.Warn("Cannot read the kernel log"+hint+
		", out-of-memory kills are not reported as events, nor used to explain exits", "err", err)
	<-ctx.Done()
	return ctx.Err()
}

// read calls found for each kill with its time and the present time, both since the boot.
// It returns when reading fails.
func (w *Watcher) read(f io.Reader, found func(k Kill, at, now time.Duration)) error {
	record := make([]byte, maxRecord)
	for {
		n, err := f.Read(record)
		switch {
		case errors.Is(err, unix.EPIPE):
			// The kernel has overwritten unread records. The next read continues
			// with the oldest one left.
			w.parse = Parser{}
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("failed to read the kernel log: %w", err)
		}
		text := string(record[:n])
		if kill, ok := w.parse.Line(message(text)); ok {
			found(kill, sinceBoot(text), uptime())
		}
	}
}
