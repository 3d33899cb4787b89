package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wakeup"
)

const (
	// maxParallelRotations is how many logs are rotated at the same time.
	maxParallelRotations = 4
	// rotateRetry is when a failed rotation is retried.
	rotateRetry = 10 * time.Second
	// compressAfter is how long after a rotation the files of a log are compressed. If
	// all of them were replaced meanwhile, they are removed before that would pay off, and
	// it waits as long again.
	compressAfter = 10 * time.Second
	// missingRetry is when the runtime is asked again to reopen a missing log.
	missingRetry = time.Minute
	// tick groups checks that are due at nearly the same time.
	tick = 50 * time.Millisecond
)

const reasonLogRotationFailed = "LogRotationFailed"

// LogRuntime is the runtime that writes logs.
type LogRuntime interface {
	// Observed returns the last list of all pods.
	Observed() *cri.Observed
	// ReopenContainerLog makes the runtime reopen a container's log. After it has
	// returned, the runtime may for a moment write output to the old file that it
	// has read before.
	ReopenContainerLog(ctx context.Context, id string) error
}

// LogsConfig configures Logs. Events and Log may be nil.
type LogsConfig struct {
	Policy  LogPolicy
	Runtime LogRuntime
	// Root contains the pods' log directories.
	Root   string
	Events Recorder
	Log    *slog.Logger
	// Watcher is inotify except in tests.
	Watcher WriteWatcher
}

// Logs rotates the logs of running containers. A log that is not written to costs
// nothing; one that is written to is checked more often the nearer it is to its
// limit.
type Logs struct {
	cfg  LogsConfig
	wake wakeup.Signal

	// Only Run uses the following fields.

	logs map[string]*runningLog // by container ID
	// compressions are those that are due, by the path of the log.
	compressions  map[string]compression
	watcher       WriteWatcher
	rotationSlots chan struct{} // limits parallel rotations
	compressing   bool
	results       chan func()
	all           sync.WaitGroup
}

// compression is the coming compression of the files of a log.
type compression struct {
	at time.Time
	// rotations counts those since the wait began.
	rotations int
}

// runningLog is the log of a running container.
type runningLog struct {
	id, path string
	pod      *cri.Pod
	size     int64
	at       time.Time // of the last check
	rate     float64   // bytes a second
	next     time.Time // of the next check; zero while it is armed
	rotating bool
	// failures counts those in a row.
	failures int
}

// NewLogs creates a log rotator. It starts nothing.
func NewLogs(cfg LogsConfig) *Logs {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Policy.MaxFiles = max(cfg.Policy.MaxFiles, 2)
	return &Logs{
		cfg: cfg, wake: wakeup.NewSignal(), logs: map[string]*runningLog{}, compressions: map[string]compression{},
		rotationSlots: make(chan struct{}, maxParallelRotations), results: make(chan func()), watcher: cfg.Watcher,
	}
}

// Wake reports that running containers may have changed and returns immediately.
func (l *Logs) Wake() { l.wake.Notify() }

// Run runs until ctx ends.
func (l *Logs) Run(ctx context.Context) error {
	if l.cfg.Policy.MaxSize <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	defer l.all.Wait()
	if l.watcher == nil {
		l.watcher = l.watch(ctx)
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.wake.C():
			l.updateRunning(l.cfg.Runtime.Observed())
		case path := <-l.watcher.Written():
			l.logWritten(path)
		case apply := <-l.results:
			apply()
		case <-timer.C:
		}
		if next := l.runDue(ctx, time.Now()); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(time.Until(next), tick))
		}
	}
}

// watch returns an inotify watcher, or none if the kernel supports no watches:
// then logs are checked periodically.
func (l *Logs) watch(ctx context.Context) WriteWatcher {
	w, err := newInotify()
	if err != nil {
		l.cfg.Log.Warn("Failed to watch logs, checking every 2 s", "err", err)
		return noWriteWatcher{}
	}
	l.all.Go(func() { w.run(ctx) })
	return w
}

// updateRunning records which containers run.
func (l *Logs) updateRunning(observed *cri.Observed) {
	now := time.Now()
	running := map[string]bool{}
	started := map[string]bool{} // directories of pods
	for _, pod := range observed.Own {
		dir := cri.LogDirectory(l.cfg.Root, pod.Namespace, pod.Name, pod.UID)
		if !within(l.cfg.Root, dir) {
			continue
		}
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if c.State != cri.StateRunning {
				continue
			}
			running[c.ID] = true
			if known := l.logs[c.ID]; known != nil {
				known.pod = pod
				continue
			}
			path := filepath.Join(dir, cri.LogPath(c.Name, c.RestartCount))
			l.logs[c.ID] = &runningLog{id: c.ID, path: path, pod: pod, rate: unknownRate, at: now, next: now}
			// An earlier daemon may have stopped before it compressed them.
			l.compressions[path] = compression{at: now.Add(compressAfter)}
			started[dir] = true
		}
	}
	for dir := range started {
		l.enforcePodLimit(observed, dir)
	}
	for id, log := range l.logs {
		if !running[id] && !log.rotating {
			l.watcher.Disarm(log.path)
			delete(l.logs, id)
		}
	}
}

// logWritten schedules a check of a log that was written to or removed.
func (l *Logs) logWritten(path string) {
	for _, log := range l.logs {
		if log.path == path && log.next.IsZero() {
			log.at = time.Now()
			log.next = log.at.Add(minCheckInterval)
		}
	}
}

// runDue does what is due and returns when the next thing is; zero is never.
func (l *Logs) runDue(ctx context.Context, now time.Time) (next time.Time) {
	earliest := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	for _, log := range l.logs {
		if log.rotating {
			continue
		}
		if !log.next.IsZero() && !log.next.After(now.Add(tick/2)) {
			l.check(ctx, log, now)
		}
		if !log.rotating {
			earliest(log.next)
		}
	}
	if l.compressing {
		return next // its end causes the next call
	}
	for path, due := range l.compressions {
		if !due.at.After(now) && due.rotations >= l.cfg.Policy.MaxFiles-1 {
			due = compression{at: now.Add(compressAfter)}
			l.compressions[path] = due
		}
		if due.at.After(now) {
			earliest(due.at)
			continue
		}
		delete(l.compressions, path)
		l.startCompression(ctx, path)
		break
	}
	return next
}

// check compares the size of a log with the limit.
func (l *Logs) check(ctx context.Context, log *runningLog, now time.Time) {
	info, err := os.Lstat(log.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A daemon was killed between renaming it and notifying the runtime, or
		// the user removed it.
		l.startRotation(ctx, log, func() error { return l.reopen(ctx, log.id) }, missingRetry)
		return
	case err != nil || !info.Mode().IsRegular():
		// A link: Docker's log, which Docker rotates itself.
		log.next = time.Time{}
		return
	}
	grown := info.Size() - log.size
	if passed := now.Sub(log.at).Seconds(); grown >= 0 && passed >= tick.Seconds() {
		log.rate = float64(grown) / passed
	}
	log.size, log.at = info.Size(), now
	if log.size >= l.cfg.Policy.MaxSize {
		l.startRotation(ctx, log, func() error { return l.rotate(ctx, log) }, 0)
		return
	}
	log.next = now.Add(nextCheck(log.size, l.cfg.Policy.MaxSize, log.rate))
	if grown != 0 {
		return
	}
	// No writes: wait for the next one. A write between the check and the watch
	// is found by checking again.
	if err := l.watcher.Arm(log.path); err != nil {
		l.cfg.Log.Debug("Failed to watch log, checking it periodically", "log", log.path, "err", err)
		return
	}
	if again, err := os.Lstat(log.path); err == nil && again.Size() == log.size {
		log.next = time.Time{}
	}
}

// startRotation runs do in the background, if there is a slot. missing is when to
// retry if the log still does not exist.
func (l *Logs) startRotation(ctx context.Context, log *runningLog, do func() error, missing time.Duration) {
	select {
	case l.rotationSlots <- struct{}{}:
	default:
		log.next = time.Now().Add(minCheckInterval)
		return
	}
	log.rotating = true
	l.all.Go(func() {
		err := do()
		<-l.rotationSlots
		select {
		case l.results <- func() { l.rotationDone(log, err, missing) }:
		case <-ctx.Done():
		}
	})
}

// rotationDone processes the result.
func (l *Logs) rotationDone(log *runningLog, err error, missing time.Duration) {
	now := time.Now()
	log.rotating = false
	switch {
	case err != nil:
		log.next = now.Add(rotateRetry)
		// Most likely the container has exited meanwhile: only a second failure
		// is reported.
		if log.failures++; log.failures == 2 && l.cfg.Events != nil {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: log.pod.Name, Namespace: log.pod.Namespace, UID: log.pod.UID}}
			l.cfg.Events.Event(pod, v1.EventTypeWarning, reasonLogRotationFailed,
				fmt.Sprintf("Failed to rotate %s: %v", log.path, err))
		}
		l.updateRunning(l.cfg.Runtime.Observed())
		return
	case missing > 0:
		log.next = now.Add(missing)
		if _, err := os.Lstat(log.path); err == nil {
			// It may already grow fast.
			log.next, log.rate = now.Add(minCheckInterval), unknownRate
		}
	default:
		log.next = now.Add(nextCheck(0, l.cfg.Policy.MaxSize, log.rate))
		due, waits := l.compressions[log.path]
		if !waits {
			due.at = now.Add(compressAfter)
		}
		due.rotations++
		l.compressions[log.path] = due
	}
	log.failures = 0
	log.size, log.at = 0, now
}

func (l *Logs) reopen(ctx context.Context, id string) error {
	return l.cfg.Runtime.ReopenContainerLog(ctx, id)
}

// rotate rotates a log, then enforces the limit of its pod.
func (l *Logs) rotate(ctx context.Context, log *runningLog) error {
	if err := rotate(log.path, l.cfg.Policy.MaxFiles, time.Now(),
		func() error { return l.reopen(ctx, log.id) }); err != nil {
		return err
	}
	l.cfg.Log.Debug("Log rotated", "log", log.path)
	l.enforcePodLimit(l.cfg.Runtime.Observed(), filepath.Dir(filepath.Dir(log.path)))
	return nil
}

// enforcePodLimit removes a pod's oldest logs beyond its limit.
func (l *Logs) enforcePodLimit(observed *cri.Observed, dir string) {
	if l.cfg.Policy.MaxPod <= 0 {
		return
	}
	current := map[string]bool{}
	for _, pod := range observed.Own {
		if cri.LogDirectory(l.cfg.Root, pod.Namespace, pod.Name, pod.UID) != dir {
			continue
		}
		for i := range pod.Containers {
			c := &pod.Containers[i]
			if c.State != cri.StateExited {
				current[filepath.Join(dir, cri.LogPath(c.Name, c.RestartCount))] = true
			}
		}
	}
	for _, path := range filesOverLimit(podLogs(dir, current), l.cfg.Policy.MaxPod) {
		_ = removeLog(path) // the next rotation tries again
	}
}

// startCompression compresses the files of a log in the background, one log at a
// time.
func (l *Logs) startCompression(ctx context.Context, path string) {
	l.compressing = true
	l.all.Go(func() {
		err := compress(path, func() bool { return ctx.Err() != nil })
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.cfg.Log.Warn("Failed to compress rotated logs", "log", path, "err", err)
		}
		select {
		case l.results <- func() { l.compressing = false }:
		case <-ctx.Done():
		}
	})
}
