package manifest

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// PodConfigOptions are what a PodConfig needs.
type PodConfigOptions struct {
	// Sources are those that will deliver. Cleanup waits for each of them.
	Sources []Source
	// Checkpoint remembers what was accepted; nil remembers in memory only.
	Checkpoint *Checkpoint
	Log        *slog.Logger
}

// PodConfig merges the full sets of all sources into ordered changes.
type PodConfig struct {
	updates chan PodUpdate
	sources []Source
}

// NewPodConfig makes a PodConfig; it starts nothing.
func NewPodConfig(opts PodConfigOptions) *PodConfig {
	return &PodConfig{updates: make(chan PodUpdate), sources: opts.Sources}
}

// Run hands the updates over, in order, until ctx ends.
func (c *PodConfig) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Deliver merges the full set of one source. It never waits for whoever
// reads the updates.
func (c *PodConfig) Deliver(set Set) {}

// Updates are the changes in the order in which they happened. The channel
// is never closed.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// Sources are the registered ones.
func (c *PodConfig) Sources() []Source { return c.sources }

// Faults are all faults there are now, those of sources first.
func (c *PodConfig) Faults() []Fault { return nil }

// FaultFor is why the pod's manifest is held back, empty if it is not.
func (c *PodConfig) FaultFor(uid types.UID) string { return "" }

// Subscribe returns a channel that is woken (capacity 1, coalescing) after
// faults or the snapshot changed, and what ends the subscription.
func (c *PodConfig) Subscribe() (<-chan struct{}, func()) {
	return make(chan struct{}, 1), func() {}
}

// SourceView is one source as it stands now.
type SourceView struct {
	Source Source `json:"source"`
	// Delivered is when the source was last read whole in this run of the
	// daemon; zero if it never was.
	Delivered time.Time `json:"delivered,omitzero"`
	// Restored says that what it holds comes from the checkpoint alone.
	Restored bool `json:"restored,omitempty"`
	// Fault is why the source as a whole cannot be read.
	Fault *Fault     `json:"fault,omitempty"`
	Units []UnitView `json:"units,omitempty"`
}

// UnitView is one file or URL body as it stands now.
type UnitView struct {
	Name string `json:"name"`
	// Digest is the sha256 of the bytes in effect; empty if none ever were.
	Digest string `json:"digest,omitempty"`
	// UIDs are those of the pods in effect.
	UIDs     []types.UID `json:"uids,omitempty"`
	Faults   Faults      `json:"faults,omitempty"`
	Restored bool        `json:"restored,omitempty"`
}

// Snapshot shows every registered source, in the order of registration.
func (c *PodConfig) Snapshot() []SourceView { return nil }
