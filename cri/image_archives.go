package cri

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// reasonArchiveLoading is why a container waits for an image that is being loaded from an
// archive; the kubelet has no such source of images.
const reasonArchiveLoading = "ImageArchiveLoading"

// ImageArchives are the archives on this machine that images are loaded from instead of
// being pulled. Its methods answer from memory.
type ImageArchives interface {
	// Find looks for an archive that contains an image, which is a full reference;
	// present reports whether the runtime has the image.
	Find(image string, present bool) (ArchivedImage, bool)
	// Subscribe returns a channel that receives after a result of Find may have changed,
	// nil if none ever does, and a function that ends the subscription.
	Subscribe() (<-chan struct{}, func())
}

// ArchivedImage is an image that an archive contains.
type ArchivedImage struct {
	// Archive is the path of the archive.
	Archive string
	// Loading reports that the archive is being loaded, or is about to be. Every pod is
	// synced when that has ended.
	Loading bool
	// Fault is why the archive cannot be loaded; empty if it can.
	Fault string
}

// noArchives are no archives.
type noArchives struct{}

func (noArchives) Find(string, bool) (ArchivedImage, bool) { return ArchivedImage{}, false }
func (noArchives) Subscribe() (<-chan struct{}, func())    { return nil, func() {} }

// errArchived cancels a pull because an archive contains the image.
var errArchived = errors.New("an image archive contains the image")

// waitForArchive returns the state of a container whose image is being loaded.
func (m *imageManager) waitForArchive(pod *v1.Pod, requested, archive string) *waitError {
	message := fmt.Sprintf("Image %q is being loaded from image archive %s", requested, archive)
	m.events.Event(pod, v1.EventTypeNormal, reasonArchiveLoading, message)
	// Every pod is synced, and every preparation retried, when that has ended; the delay
	// covers one that had not recorded yet that it waits.
	return &waitError{Waiting: Waiting{reasonArchiveLoading, message}, retryAfter: imageBackoffInitial}
}

// untilArchived returns a context that ends with errArchived when it turns out that an
// archive contains an image which the runtime does not have.
func (m *imageManager) untilArchived(ctx context.Context, image string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	changed, unsubscribe := m.archives.Subscribe()
	if changed == nil {
		return ctx, func() { cancel(nil) }
	}
	go func() {
		defer unsubscribe()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if found, ok := m.archives.Find(image, true); ok && found.Fault == "" {
				cancel(errArchived)
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
