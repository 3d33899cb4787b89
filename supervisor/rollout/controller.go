package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/manifest"
)

// PodConfig merges the sources. Implemented by manifest.PodConfig.
type PodConfig interface {
	// Updates delivers the changes in order. The channel is never closed.
	Updates() <-chan manifest.PodUpdate
	// Sources returns all sources that are going to deliver.
	Sources() []manifest.Source
	// FaultFor returns the fault of a newer revision of the pod, empty if none.
	FaultFor(uid types.UID) string
	// Subscribe returns a channel that receives after faults changed, until the
	// function is called.
	Subscribe() (<-chan struct{}, func())
}

// Options configures a Controller.
type Options struct {
	Pods PodConfig
	Log  *slog.Logger
}

// Controller decides which revision of each static pod is in effect. It is the
// PodConfig of the supervisor.
type Controller struct {
	pods PodConfig
	log  *slog.Logger
}

// ErrUnknownPod is in the error of a request about a pod that no manifest declares.
var ErrUnknownPod = errors.New("no manifest declares this pod")

// New returns a Controller. It starts nothing and touches nothing.
func New(opts Options) *Controller {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Controller{pods: opts.Pods, log: opts.Log}
}

// Run passes the updates on, in order, until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Updates returns the changes in the order in which they come into effect. The
// channel is unbuffered and never closed.
func (c *Controller) Updates() <-chan manifest.PodUpdate { return c.pods.Updates() }

// Sources returns the registered sources.
func (c *Controller) Sources() []manifest.Source { return c.pods.Sources() }

// FaultFor returns why a running pod may differ from its manifest, empty if it does
// not.
func (c *Controller) FaultFor(uid types.UID) string { return c.pods.FaultFor(uid) }

// Subscribe returns a channel that receives (capacity 1, coalescing) after faults or
// rollouts changed, and a function that ends the subscription.
func (c *Controller) Subscribe() (<-chan struct{}, func()) { return c.pods.Subscribe() }

// Observe notes the status of a pod that was published. It does not wait for anything.
func (c *Controller) Observe(types.UID, *v1.PodStatus) {}

// Images returns the images that image garbage collection must keep next to those of
// the wanted pods: of revisions that are prepared, and that a rollback would start.
func (c *Controller) Images() []string { return nil }

// ManifestUID returns the UID that the revision in the manifest has of the pod with
// this UID: another one while an earlier revision is in effect, or one that differs in
// image digests. It is the UID itself for all other pods.
func (c *Controller) ManifestUID(uid types.UID) types.UID { return uid }

// Statuses returns the rollouts of all static pods, sorted by pod.
func (c *Controller) Statuses() []Status { return nil }

// History returns the revisions of a pod that were in effect, the newest first. The
// name is namespace/name as in the pod, with the node's suffix.
func (c *Controller) History(fullName string) ([]Revision, error) {
	return nil, fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
}

// Undo puts an earlier revision into effect, by its short hash, or the previous one
// that was Ready if revision is empty. It stays until the manifest changes or Retry is
// called. It returns at once; the revision is prepared first, as every other.
func (c *Controller) Undo(fullName, revision string) error {
	return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
}

// Retry puts the revision of the manifest into effect again, after a rollback or Undo.
func (c *Controller) Retry(fullName string) error {
	return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
}

// SetImages makes the manifest's revision run with other images: container name to
// repository:tag@sha256:…. Containers that are not in the map keep the image of the
// manifest, so that an empty map returns to it. The images hold until the manifest
// changes.
func (c *Controller) SetImages(fullName string, images map[string]string) error {
	return fmt.Errorf("pod %s: %w", fullName, ErrUnknownPod)
}
