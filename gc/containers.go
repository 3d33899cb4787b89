package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/wakeup"
)

const (
	// retryPeriod is when a failed round is retried; the kubelet's period of
	// garbage collection.
	retryPeriod = time.Minute
	// maxParallelRemovals is how many pods are cleaned at the same time: a
	// runtime that hangs on one must not block the rest.
	maxParallelRemovals = 4
)

// reasonContainerGCFailed is the kubelet's reason.
const reasonContainerGCFailed = "ContainerGCFailed"

// Recorder records events; pod is nil for an event of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// PodRuntime observes and removes dead containers and sandboxes.
type PodRuntime interface {
	// Observed returns the last list of all pods. Its time is zero before the
	// first.
	Observed() *cri.Observed
	// Remove removes the given dead containers and sandboxes. One that is gone is
	// not an error.
	Remove(ctx context.Context, pod *cri.Pod) error
}

// ContainersConfig configures Containers. All fields except Log are required.
type ContainersConfig struct {
	Policy  ContainerPolicy
	Runtime PodRuntime
	// Collectable reports whether a pod keeps running and its garbage may be
	// removed. Pods that are being terminated are cleaned by their workers; those
	// that a source which is not ready might still want are left alone.
	Collectable func(uid types.UID) bool
	// RunState reports whether a pod has ended its run, so that Reclaim may
	// remove everything that is dead; nil means that none has.
	RunState func(uid types.UID) RunState
	Files    Files
	Events   Recorder
	Log      *slog.Logger
}

// Containers removes dead containers, sandboxes and their files. It runs when it
// is woken, and when a removal is due.
type Containers struct {
	cfg  ContainersConfig
	wake wakeup.Signal

	// mu is held during a round and guards the fields below.
	mu sync.Mutex
	// restarts are the highest restart counts by pod: new files are left behind
	// only when one rises.
	restarts map[types.UID]int
	swept    bool
}

// NewContainers creates a collector. It starts nothing.
func NewContainers(cfg ContainersConfig) *Containers {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Containers{cfg: cfg, wake: wakeup.NewSignal(), restarts: map[types.UID]int{}}
}

// Wake requests a round and returns immediately. Requests coalesce.
func (g *Containers) Wake() { g.wake.Notify() }

// Run runs until ctx ends.
func (g *Containers) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.wake.C():
		case <-timer.C:
		}
		if next, _, _ := g.round(ctx, false); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// Reclaim runs a round immediately because a disk is full. In addition to what a
// round removes, it removes everything that is dead of pods whose run has ended,
// including their last containers and logs. Their statuses are kept. It returns
// how many containers and sandboxes were removed; a failed removal does not stop
// the others.
func (g *Containers) Reclaim(ctx context.Context) (removed int, err error) {
	_, gone, err := g.round(ctx, true)
	for _, pod := range gone {
		removed += len(pod.Containers) + len(pod.Sandboxes)
	}
	return removed, err
}

// round removes garbage and returns when the next round is due even if nothing
// changes; zero is never. With reclaim it removes more than the policy requires.
func (g *Containers) round(ctx context.Context, reclaim bool) (next time.Time, removed map[types.UID]*cri.Pod,
	err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	observed := g.cfg.Runtime.Observed()
	if observed.At.IsZero() {
		return time.Time{}, nil, nil
	}
	pods := make([]*cri.Pod, 0, len(observed.Own))
	var ended []*cri.Pod
	now := time.Now()
	for _, pod := range observed.Own {
		if !g.cfg.Collectable(pod.UID) {
			continue
		}
		pods = append(pods, pod)
		if reclaim && g.cfg.RunState != nil {
			if gone := SelectEnded(pod, g.cfg.RunState(pod.UID), g.cfg.Policy, now); gone != nil {
				ended = append(ended, gone)
			}
		}
	}
	garbage := SelectContainers(pods, g.cfg.Policy, now)
	removed, err = g.remove(ctx, merge(garbage.Pods, ended))
	g.sweep(pods, removed)
	next = garbage.Next
	if err != nil && ctx.Err() == nil {
		g.cfg.Events.Event(nil, v1.EventTypeWarning, reasonContainerGCFailed, err.Error())
		if retry := now.Add(retryPeriod); next.IsZero() || retry.After(next) {
			next = retry
		}
	}
	return next, removed, err
}

// merge returns the garbage of pods, replacing that of ended ones, which have
// more.
func merge(pods, ended []*cri.Pod) []*cri.Pod {
	more := make(map[types.UID]bool, len(ended))
	for _, pod := range ended {
		more[pod.UID] = true
	}
	return append(slices.DeleteFunc(pods, func(pod *cri.Pod) bool { return more[pod.UID] }), ended...)
}

// remove removes garbage and returns what was removed. A failure in one pod does
// not stop the others.
func (g *Containers) remove(ctx context.Context, pods []*cri.Pod) (removed map[types.UID]*cri.Pod, err error) {
	var mu sync.Mutex
	var errs []error
	removed = map[types.UID]*cri.Pod{}
	slots := make(chan struct{}, maxParallelRemovals)
	var all sync.WaitGroup
	for _, pod := range pods {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			err := g.cfg.Runtime.Remove(ctx, pod)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("failed to remove dead containers of pod %s: %w", pod.FullName(), err))
				return
			}
			removed[pod.UID] = pod
			g.cfg.Log.Debug("Dead containers removed", "pod", pod.FullName(), "containers", len(pod.Containers), "sandboxes",
				len(pod.Sandboxes))
		})
	}
	all.Wait()
	return removed, errors.Join(errs...)
}

// sweep removes the files of what is gone: of containers that this round removed,
// and of pods in which a container was restarted since the last round, whatever
// removed the previous instance.
func (g *Containers) sweep(pods []*cri.Pod, removed map[types.UID]*cri.Pod) {
	if !g.swept {
		g.swept = true
		g.cfg.Files.removeDanglingLinks()
	}
	var links []string // logs that were removed
	seen := make(map[types.UID]int, len(pods))
	for _, pod := range pods {
		highest := 0
		for i := range pod.Containers {
			highest = max(highest, pod.Containers[i].RestartCount)
		}
		seen[pod.UID] = highest
		gone := removed[pod.UID]
		if gone == nil && (highest == 0 || highest == g.restarts[pod.UID]) {
			continue
		}
		links = append(links, g.cfg.Files.sweep(pod, gone)...)
	}
	g.restarts = seen
	if len(links) > 0 {
		g.cfg.Files.removeLinksTo(links)
	}
}
