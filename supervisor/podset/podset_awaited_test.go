package podset

import (
	"testing"

	"github.com/podstead/podstead/manifest"
)

// A source of which a part was never read is not ready, though what is known of it runs.
func TestAwaitedSourceIsNotReady(t *testing.T) {
	s, all := New(), []manifest.Source{manifest.SourceOCI}
	s.MarkReady(manifest.PodUpdate{Op: manifest.Restore, Source: manifest.SourceOCI, Awaited: true})
	changed, unsubscribe := s.Subscribe()
	defer unsubscribe()
	if s.AllReady(all) {
		t.Error("ready with a part of the source")
	}
	s.MarkReady(manifest.PodUpdate{Op: manifest.Restore, Source: manifest.SourceOCI})
	<-changed
	if !s.AllReady(all) || s.IsReady(manifest.SourceOCI, all) {
		t.Error("restored, it is not ready to start, or it is to clean up")
	}
}
