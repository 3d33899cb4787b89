package gc

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/wakeup"
)

// imagePeriod is the default time between two checks of the image file system,
// the kubelet's. A check is one system call; the kernel does not notify about
// full disks. The first check comes after that time, so that the sources are
// ready.
const imagePeriod = 5 * time.Minute

// reasonImageGCFailed is the kubelet's.
const reasonImageGCFailed = "ImageGCFailed"

// useGap is the least time between two scans of the images in use.
const useGap = 2 * time.Second

// ImageStore is the runtime's store of images. cri.Client implements it.
type ImageStore interface {
	StoredImages(ctx context.Context) ([]cri.StoredImage, error)
	StoredImage(ctx context.Context, ref string) (cri.StoredImage, bool, error)
	ImagesInUse(ctx context.Context) ([]string, error)
	SandboxImage(ctx context.Context) (string, error)
	ImageMount(ctx context.Context) (string, error)
	RemoveImage(ctx context.Context, image string) error
}

// Statfs returns the capacity of a file system and its free space for
// unprivileged users, in bytes.
type Statfs func(mount string) (capacity, free uint64, err error)

// ImagesConfig configures Images.
type ImagesConfig struct {
	Policy ImagePolicy
	Store  ImageStore
	// Runtime is the runtime's endpoint.
	Runtime string
	// Observed returns the last list of all pods.
	Observed func() *cri.Observed
	// Desired returns the images that manifests name.
	Desired func() []string
	// WaitForSources waits until Desired is complete, or as long as is useful. It
	// is called by rounds outside the period; nil does not wait.
	WaitForSources func(ctx context.Context)
	// Pulls are the records of credentials, which end with their images; may be nil.
	Pulls *pullrecords.Records
	// File records what was pulled and used.
	File string
	// Disk is where File is.
	Disk   statefile.Disk
	Events Recorder
	// Removed is called for each removed image with the reason: age, space or
	// command. It may be nil.
	Removed func(why string)
	// Log may be nil.
	Log *slog.Logger
	// Statfs is statfs(2) except in tests.
	Statfs Statfs
}

// Images removes images that this podstead pulled and that are not needed, when
// their file system is full or they were not used for long.
type Images struct {
	cfg  ImagesConfig
	file *statefile.File[imageRecord]
	wake wakeup.Signal

	// round is held while images are selected and removed.
	round sync.Mutex

	mu        sync.Mutex
	record    imageRecord
	inUse     map[string]bool // what containers have now
	clockRead time.Time       // at the clock
	saveError string          // why the record is not written

	failures int // of rounds in a row; Run's alone
}

// NewImages creates a collector with the contents of the file. A damaged file is
// logged: no image that exists now will be removed.
func NewImages(cfg ImagesConfig) *Images {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Statfs == nil {
		cfg.Statfs = statfs
	}
	if cfg.Removed == nil {
		cfg.Removed = func(string) {}
	}
	file := recordFormat.File(cfg.File, cfg.Disk)
	record, err := loadRecord(file, cfg.Runtime)
	if err != nil {
		cfg.Log.Warn("Failed to load image record, images pulled before are never removed", "file", cfg.File, "err", err)
	}
	now := time.Now()
	record.fixUnsetTimes(now)
	return &Images{cfg: cfg, file: file, wake: wakeup.NewSignal(), record: record, inUse: map[string]bool{},
		clockRead: now}
}

func statfs(mount string) (capacity, free uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(mount, &s); err != nil {
		return 0, 0, fmt.Errorf("failed to get the usage of %s: %w", mount, err)
	}
	return s.Blocks * uint64(s.Bsize), s.Bavail * uint64(s.Bsize), nil
}

// Wake reports that containers may have changed and returns immediately.
func (g *Images) Wake() { g.wake.Notify() }

// Run runs until ctx ends.
func (g *Images) Run(ctx context.Context) error {
	timer := time.NewTicker(cmp.Or(g.cfg.Policy.Period, imagePeriod))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			if len(g.inUse) > 0 {
				g.save() // with the time of their last use
			}
			return ctx.Err()
		case <-g.wake.C():
			g.recordUse(g.cfg.Observed())
			// Changes during this time are recorded after it.
			retry.Sleep(ctx, useGap)
		case <-timer.C:
			g.recordUse(g.cfg.Observed())
			g.tick(ctx)
		}
	}
}

// tick is one round. Like the kubelet, it records an event from the second
// failure in a row.
func (g *Images) tick(ctx context.Context) {
	err := g.collect(ctx)
	if err == nil || ctx.Err() != nil {
		g.failures = 0
		return
	}
	if g.failures++; g.failures > 1 {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonImageGCFailed, err.Error())
	}
}
