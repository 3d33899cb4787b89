package access

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settleTime is the time between the first change of a file and the call of changed, so that
// a file that is written in several steps is read when it is complete.
const settleTime = time.Second

// WatchFiles calls changed after files may have changed, until ctx ends. Without inotify
// it logs a warning and returns.
func WatchFiles(ctx context.Context, log *slog.Logger, changed func(), paths ...string) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("Failed to watch credential files: a removed token or CA does not end open watches and sessions", "err", err)
		return
	}
	defer watcher.Close()
	watch := func() {
		for _, path := range paths {
			// A file is replaced in its directory. If it is a link, so is its target.
			_ = watcher.Add(filepath.Dir(path))
			if target, err := filepath.EvalSymlinks(path); err == nil {
				_ = watcher.Add(filepath.Dir(target))
			}
		}
	}
	watch()
	// The files may have changed since they were read.
	changed()
	settle := time.NewTimer(0)
	settle.Stop()
	settling := false
	start := func() {
		// Later changes do not postpone it: other files in the directory may change all the time.
		if !settling {
			settling = true
			settle.Reset(settleTime)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-settle.C:
			settling = false
			watch()
			changed()
		case <-watcher.Events:
			start()
		case <-watcher.Errors: // such as an overflow of the queue
			start()
		}
	}
}
