package nodestatus

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// inventoryPeriod is the time between two reads of the inventory, as at the
	// kubelet: the runtime does not notify about images.
	inventoryPeriod = 30 * time.Second
	// maxImageNames limits the names of an image, as at the kubelet.
	maxImageNames = 5
)

// Runtime describes what the container runtime has for pods.
type Runtime interface {
	Features(ctx context.Context) (Features, error)
	Images(ctx context.Context) ([]Image, error)
}

// Features are those of a runtime and its runtime handlers.
type Features struct {
	// SupplementalGroupsPolicy is nil if the runtime reports no features.
	SupplementalGroupsPolicy *bool
	// Handlers are in no order.
	Handlers []v1.NodeRuntimeHandler
}

// Image is an image in the runtime's store.
type Image struct {
	Tags, Digests []string
	// Size is in bytes.
	Size uint64
}

// RuntimeInventory is what a runtime has for pods. It is shared: callers must not
// modify it.
type RuntimeInventory struct {
	Images   []v1.ContainerImage
	Handlers []v1.NodeRuntimeHandler
	Features *v1.NodeFeatures
}

// Inventory reads what the runtime has. It reads nothing before Run.
type Inventory struct {
	runtime Runtime
	images  int
	log     *slog.Logger

	mu      sync.Mutex
	current RuntimeInventory
}

// NewInventory creates an inventory that shows the given number of images, all if
// it is negative.
func NewInventory(runtime Runtime, images int, log *slog.Logger) *Inventory {
	return &Inventory{runtime: runtime, images: images, log: log}
}

// Current returns the last inventory, empty before the first.
func (i *Inventory) Current() RuntimeInventory {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.current
}

// Run reads the inventory until the context ends.
func (i *Inventory) Run(ctx context.Context) error {
	tick := time.NewTicker(inventoryPeriod)
	defer tick.Stop()
	for {
		if err := i.refresh(ctx); err != nil && ctx.Err() == nil {
			// Other components report an unavailable runtime.
			i.log.Debug("Failed to list images and features of the runtime", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// refresh reads the inventory. If that fails, the last one stays.
func (i *Inventory) refresh(ctx context.Context) error {
	features, err := i.runtime.Features(ctx)
	if err != nil {
		return err
	}
	stored, err := i.runtime.Images(ctx)
	if err != nil {
		return err
	}
	held := RuntimeInventory{Images: nodeImages(stored, i.images), Handlers: sortedHandlers(features.Handlers)}
	if features.SupplementalGroupsPolicy != nil {
		held.Features = &v1.NodeFeatures{SupplementalGroupsPolicy: features.SupplementalGroupsPolicy}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.current = held
	return nil
}

// nodeImages returns the images by size, the largest first, at most so many.
func nodeImages(stored []Image, most int) []v1.ContainerImage {
	shown := make([]v1.ContainerImage, 0, len(stored))
	for _, s := range stored {
		names := slices.Concat(s.Digests, s.Tags)
		if len(names) == 0 {
			continue // a scheduler searches by name
		}
		shown = append(shown, v1.ContainerImage{Names: names[:min(len(names), maxImageNames)], SizeBytes: int64(s.Size)})
	}
	slices.SortFunc(shown, func(a, b v1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), cmp.Compare(a.Names[0], b.Names[0]))
	})
	if most >= 0 && len(shown) > most {
		shown = shown[:most]
	}
	return shown
}

func sortedHandlers(list []v1.NodeRuntimeHandler) []v1.NodeRuntimeHandler {
	return slices.SortedFunc(slices.Values(list),
		func(a, b v1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
}
