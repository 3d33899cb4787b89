package unwritten

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/wakeup"
)

// retryDelay is the time between two attempts of a write that Write repeats.
const retryDelay = 10 * time.Second

// File is a file or directory whose last write failed.
type File struct {
	Path string
	Err  error
	// Since is the time of the first of the failed writes.
	Since time.Time
}

// Files are the files whose last write failed. All methods are safe for concurrent use;
// a nil *Files records nothing.
type Files struct {
	// changed notifies Run.
	changed wakeup.Signal

	mu     sync.Mutex
	failed map[string]failure
}

// failure is a File with the write that Run repeats, nil if its owner repeats it.
type failure struct {
	File
	write func() error
}

// New returns Files without a failure.
func New() *Files {
	return &Files{changed: wakeup.NewSignal(), failed: map[string]failure{}}
}

// Report records the result of a write that its owner repeats. With a nil error the path
// is forgotten, also if it was removed.
func (f *Files) Report(path string, err error) { f.record(path, err, nil) }

// Write calls write and returns its error. If it fails, Run repeats it until it succeeds.
// The function must be safe to call from another goroutine.
func (f *Files) Write(path string, write func() error) error {
	err := write()
	f.Repeat(path, err, write)
	return err
}

// Repeat is Write for a caller that has called write already, with the result err.
func (f *Files) Repeat(path string, err error, write func() error) { f.record(path, err, write) }

func (f *Files) record(path string, err error, write func() error) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	before, failed := f.failed[path]
	if err == nil {
		if !failed {
			return
		}
		delete(f.failed, path)
	} else {
		since := before.Since
		if !failed {
			since = time.Now()
		}
		f.failed[path] = failure{File: File{Path: path, Err: err, Since: since}, write: write}
		if failed && before.Err.Error() == err.Error() {
			return
		}
	}
	f.changed.Notify()
}

// List returns the files whose last write failed, sorted by path.
func (f *Files) List() []File {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]File, 0, len(f.failed))
	for _, one := range f.failed {
		list = append(list, one.File)
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// Run repeats failed writes and calls notify after each change of the list, until ctx
// ends. It does nothing while every write succeeds.
func (f *Files) Run(ctx context.Context, notify func([]File)) error {
	retry := time.NewTimer(retryDelay)
	retry.Stop()
	defer retry.Stop()
	for waiting := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-f.changed.C():
			notify(f.List())
		case <-retry.C:
			waiting = false
			f.retry()
		}
		// A change does not delay the next attempt.
		if !waiting && f.pending() != nil {
			retry.Reset(retryDelay)
			waiting = true
		}
	}
}

// pending returns the failures that have a write to repeat.
func (f *Files) pending() (list []failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.failed {
		if one.write != nil {
			list = append(list, one)
		}
	}
	return list
}

func (f *Files) retry() {
	for _, one := range f.pending() {
		_ = f.Write(one.Path, one.write) // the list has the error
	}
}
