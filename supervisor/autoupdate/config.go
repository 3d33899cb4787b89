package autoupdate

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/supervisor/rollout"
)

// Config is what an Updater works with. All fields but Disk, Events, Metrics and Log
// are required.
type Config struct {
	Schedule Schedule
	Rollouts Rollouts
	Registry Registry
	Images   Images
	// Pull pulls an image for no pod.
	Pull func(ctx context.Context, image string, credentials cri.PullCredentials) error
	// Observed returns the last list of all pods.
	Observed func() *cri.Observed
	// Credentials returns the credentials for the images of a pod.
	Credentials func(pod *v1.Pod) cri.PullCredentials
	// File records what the last checks found.
	File string
	// Disk is where File is.
	Disk    statefile.Disk
	Events  Recorder
	Metrics Metrics
	Log     *slog.Logger
}

// Rollouts replaces the images of pods. Implemented by rollout.Controller.
type Rollouts interface {
	// AutoUpdated returns the pods with the annotation, sorted by full name.
	AutoUpdated() []rollout.ImageTarget
	// UpdateImages makes the revision of the manifest run with other images, by container;
	// those that are not in the map are the manifest's. previous are the exact images that
	// these containers run now, to which a rollback returns.
	UpdateImages(fullName string, images, previous map[string]string) error
	// Subscribe returns a channel that receives after a rollout or the set of pods
	// changed, until the function is called.
	Subscribe() (<-chan struct{}, func())
}

// Registry reads from registries. Implemented by registry.Client.
type Registry interface {
	Resolve(ctx context.Context, r registry.Reference, credentials ...registry.Credential) (registry.Descriptor, error)
	FetchManifest(ctx context.Context, r registry.Reference, limit int64,
		credentials ...registry.Credential) (registry.Manifest, error)
}

// Images are the images of the runtime. Implemented by cri.Client.
type Images interface {
	// StoredImage looks up an image by reference or ID; false without an error means
	// that it is not present.
	StoredImage(ctx context.Context, ref string) (cri.StoredImage, bool, error)
}

// Recorder records events. Implemented by event.Recorder.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Metrics counts checks and updates. Its methods must not block.
type Metrics interface {
	// ImageChecked counts the check of a container's image by its result: current,
	// available or failed.
	ImageChecked(result string)
	// ImageUpdated counts the update of a pod by its result: completed or rolled_back.
	ImageUpdated(result string)
}

type noEvents struct{}

func (noEvents) Event(*v1.Pod, string, string, string) {}

type noMetrics struct{}

func (noMetrics) ImageChecked(string) {}
func (noMetrics) ImageUpdated(string) {}

func (c Config) withDefaults() Config {
	if c.Events == nil {
		c.Events = noEvents{}
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
