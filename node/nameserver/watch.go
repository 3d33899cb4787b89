package nameserver

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"

	"github.com/podstead/podstead/internal/statefile"
)

// watchSnapshot reads the snapshot now, and each time that it is replaced.
func (s *Server) watchSnapshot(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("failed to watch %s: %w", s.dir, err)
	}
	defer watcher.Close()
	if err := watcher.Add(string(s.dir)); err != nil {
		return fmt.Errorf("failed to watch %s: %w", s.dir, err)
	}
	s.loadSnapshot(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-watcher.Events:
			if !ok {
				return fmt.Errorf("the watch of %s has ended", s.dir)
			}
			if filepath.Base(event.Name) == filepath.Base(s.dir.Snapshot()) && event.Has(fsnotify.Create) {
				s.loadSnapshot(ctx)
			}
		case <-watcher.Errors: // events were lost
			s.loadSnapshot(ctx)
		}
	}
}

// loadSnapshot uses the snapshot that is there now. One that cannot be read changes nothing.
func (s *Server) loadSnapshot(ctx context.Context) {
	snapshot, err := SnapshotFormat.Read(s.dir.Snapshot(), statefile.Disk{})
	if err != nil {
		s.log.Warn("Failed to read the snapshot, keeping the previous one", "err", err)
		return
	}
	before := s.names.Swap(newNames(&snapshot))
	if before == nil || before.Port != snapshot.Port || !slices.Equal(before.Listen, snapshot.Listen) {
		s.listen(ctx, snapshot.Listen, snapshot.Port)
	}
	s.statusChanged.Notify()
}
