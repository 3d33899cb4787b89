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
)

// imagePeriod is the default time between two looks at the image file system,
// the kubelet's. A look is one system call; nothing tells when a disk fills. The
// first comes after the sources had that time to tell what they want.
const imagePeriod = 5 * time.Minute

// reasonImageGCFailed is the kubelet's.
const reasonImageGCFailed = "ImageGCFailed"

// useGap is the least time between two looks at which images are used.
const useGap = 2 * time.Second

// ImageStore is where the runtime keeps images. Implemented by cri.Client.
type ImageStore interface {
	StoredImages(ctx context.Context) ([]cri.StoredImage, error)
	StoredImage(ctx context.Context, ref string) (cri.StoredImage, bool, error)
	ImagesInUse(ctx context.Context) ([]string, error)
	SandboxImage(ctx context.Context) (string, error)
	ImageMount(ctx context.Context) (string, error)
	RemoveImage(ctx context.Context, image string) error
}

// Room tells how many bytes a file system has and how many of them are free
// for anybody.
type Statfs func(mount string) (capacity, free uint64, err error)

// ImagesConfig is what Images is made of.
type ImagesConfig struct {
	Policy ImagePolicy
	Store  ImageStore
	// Runtime is the runtime's endpoint.
	Runtime string
	// Observed is the last view of all pods.
	Observed func() *cri.Observed
	// Wanted are the images that manifests name.
	Wanted func() []string
	// Settled waits until Wanted has all that there will be, or for as long as
	// that is worth. It is asked by who does not come with the period; nil does
	// not wait.
	WaitForSources func(ctx context.Context)
	// File is where is kept what was pulled and used.
	File   string
	Events Recorder
	// Removed is told of each image that was removed, and why: age, space or
	// command. Nil tells nobody.
	Removed func(why string)
	// Log may be nil.
	Log *slog.Logger
	// Room is statfs(2) unless a test says otherwise.
	Statfs Statfs
}

// Images removes images that this podstead pulled and nobody needs, when their
// file system fills or they were not used for long.
type Images struct {
	cfg  ImagesConfig
	wake chan struct{}

	// round is held while images are chosen and removed.
	round sync.Mutex

	mu        sync.Mutex
	record    imageRecord
	inUse     map[string]bool // what containers have now
	clockRead time.Time       // at the clock
	saveError string          // why the record is not written

	failures int // of rounds in a row; Run's alone
}

// NewImages makes a collector with what the file holds. A damaged file is
// logged: no image that is there now will be removed.
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
	record, err := loadRecord(cfg.File, cfg.Runtime)
	if err != nil {
		cfg.Log.Warn("Failed to load image record, images pulled before are never removed", "file", cfg.File, "err", err)
	}
	now := time.Now()
	record.fixUnsetTimes(now)
	return &Images{cfg: cfg, wake: make(chan struct{}, 1), record: record, inUse: map[string]bool{}, clockRead: now}
}

func statfs(mount string) (capacity, free uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(mount, &s); err != nil {
		return 0, 0, fmt.Errorf("failed to get the usage of %s: %w", mount, err)
	}
	return s.Blocks * uint64(s.Bsize), s.Bavail * uint64(s.Bsize), nil
}

// Wake tells that other containers may be there and returns at once.
func (g *Images) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (g *Images) Run(ctx context.Context) error {
	timer := time.NewTicker(cmp.Or(g.cfg.Policy.Period, imagePeriod))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			g.mu.Lock()
			defer g.mu.Unlock()
			if len(g.inUse) > 0 {
				g.save() // with the time until which they were used
			}
			return ctx.Err()
		case <-g.wake:
			g.recordUse(g.cfg.Observed())
			// What changes meanwhile is noted after that.
			select {
			case <-ctx.Done():
			case <-time.After(useGap):
			}
		case <-timer.C:
			g.recordUse(g.cfg.Observed())
			g.tick(ctx)
		}
	}
}

// tick is one round. The kubelet tells of a failure when it is the second.
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
