package manifest

import (
	"context"
	"log/slog"
	"time"
)

// UnitLoader turns the bytes of a unit into pods. *Loader is one.
type UnitLoader interface {
	Load(req LoadRequest) ([]Document, Faults)
}

// Deliverer takes the full set of a source. *PodConfig is one.
type Deliverer interface {
	Deliver(set Set)
}

// FileSourceOptions are what a FileSource needs.
type FileSourceOptions struct {
	// Path is a folder, or a single manifest file.
	Path string
	// Node is the name of this node: pods of the checkpoint that carry
	// another are judged anew. Empty takes them as they are.
	Node string
	// Rescan is the time between two looks without a sign of change; zero
	// means 20 seconds, the kubelet's fileCheckFrequency.
	Rescan     time.Duration
	Loader     UnitLoader
	Checkpoint *Checkpoint
	Deliver    Deliverer
	Log        *slog.Logger
}

// FileSource delivers the manifests of a folder or of a single file.
type FileSource struct {
	opts FileSourceOptions
}

// NewFileSource makes a FileSource; it reads and starts nothing.
func NewFileSource(opts FileSourceOptions) *FileSource {
	return &FileSource{opts: opts}
}

// Run delivers until ctx ends. It returns no error: whatever goes wrong is a
// fault of the set and may pass.
func (s *FileSource) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
