package cri

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// StoredImage is an image that the runtime has.
type StoredImage struct {
	ID string
	// Tags and Digests are its references, in full.
	Tags, Digests []string
	// Size is in bytes, as the runtime reports it.
	Size uint64
	// Pinned reports that the runtime wants the image never to be removed.
	Pinned bool
}

func storedImage(i *runtimeapi.Image) StoredImage {
	return StoredImage{ID: i.GetId(), Tags: i.GetRepoTags(), Digests: i.GetRepoDigests(), Size: i.GetSize(),
		Pinned: i.GetPinned()}
}

// StoredImages returns all images of the runtime, whichever client pulled them.
func (c *Client) StoredImages(ctx context.Context) ([]StoredImage, error) {
	list, err := c.ListImages(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]StoredImage, 0, len(list))
	for _, i := range list {
		images = append(images, storedImage(i))
	}
	return images, nil
}

// StoredImage looks up an image by reference or ID; false without an error means
// that it is not present.
func (c *Client) StoredImage(ctx context.Context, ref string) (StoredImage, bool, error) {
	i, err := c.ImageStatus(ctx, ref)
	if err != nil || i == nil {
		return StoredImage{}, false, err
	}
	return storedImage(i), true, nil
}

// ImagesInUse returns the images of all containers, running or dead, of every
// client of the runtime: references and IDs as the runtime reports them, with
// duplicates.
func (c *Client) ImagesInUse(ctx context.Context) ([]string, error) {
	list, err := c.listContainers(ctx, nil)
	if err != nil {
		return nil, err
	}
	var refs []string
	for _, k := range list {
		refs = append(refs, k.GetImageId(), k.GetImageRef(), k.GetImage().GetImage())
	}
	return refs, nil
}

// SandboxImage returns the image of sandboxes, empty if the runtime does not report
// it. Newer runtimes pin it instead.
func (c *Client) SandboxImage(ctx context.Context) (string, error) {
	config, err := c.RuntimeConfig(ctx)
	return config.SandboxImage, err
}

// HasImages reports whether the runtime has all images of a pod; false if it does not respond.
func (c *Client) HasImages(ctx context.Context, pod *v1.Pod) bool {
	for name := range podinfo.Images(&pod.Spec) {
		if image, err := c.ImageStatus(ctx, name); err != nil || image == nil {
			return false
		}
	}
	return true
}

// ImageMount returns the mount point of the file system that stores the images,
// empty if the runtime reports none.
func (c *Client) ImageMount(ctx context.Context) (string, error) {
	a, err := c.ImageFsInfo(ctx)
	if err != nil {
		return "", err
	}
	for _, f := range a.GetImageFilesystems() {
		if mount := f.GetFsId().GetMountpoint(); mount != "" {
			return mount, nil
		}
	}
	return "", nil
}

// ObservedPulls returns the image service of c. It calls pulled after each
// successful pull, with the ID of the image that had the name before, empty if
// none had.
type ObservedPulls struct {
	*Client
	mu       sync.RWMutex
	pulled   func(ctx context.Context, ref, before string)
	measured func(size uint64, took time.Duration)
}

// NewObservedPulls makes one that reports nothing until OnPulled was called.
func NewObservedPulls(c *Client) *ObservedPulls { return &ObservedPulls{Client: c} }

// OnPulled sets the function that is called after each pull with the reference and
// the ID of the image that had it before, empty if none had.
func (p *ObservedPulls) OnPulled(pulled func(ctx context.Context, ref, before string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulled = pulled
}

// OnMeasured sets the function that is called after each successful pull with the size of the
// image in bytes, 0 if it is not known, and the duration of the pull.
func (p *ObservedPulls) OnMeasured(measured func(size uint64, took time.Duration)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.measured = measured
}

// PullImage implements ImageRuntime.
func (p *ObservedPulls) PullImage(ctx context.Context, image string, auth *runtimeapi.AuthConfig) (string, error) {
	before, _, err := p.StoredImage(ctx, image)
	if err != nil {
		return "", err
	}
	start := time.Now()
	ref, err := p.Client.PullImage(ctx, image, auth)
	took := time.Since(start)
	p.mu.RLock()
	pulled, measured := p.pulled, p.measured
	p.mu.RUnlock()
	if err == nil && pulled != nil {
		pulled(ctx, image, before.ID)
	}
	if err == nil && measured != nil {
		stored, _, _ := p.StoredImage(ctx, ref) // an unknown size is none
		measured(stored.Size, took)
	}
	return ref, err
}
