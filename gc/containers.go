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
)

const (
	// retryPeriod is how long after a failure it is tried again; the kubelet's
	// period of garbage collection.
	retryPeriod = time.Minute
	// removals is how many pods' remains are removed at a time: a runtime that
	// hangs on one must not keep the rest.
	maxParallelRemovals = 4
)

// reasonContainerGCFailed is the kubelet's reason.
const reasonContainerGCFailed = "ContainerGCFailed"

// Recorder takes events; pod is nil for one of the node.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// PodRuntime is how remains are seen and removed.
type PodRuntime interface {
	// Observed is the last view of all pods. Its time is zero before the first.
	Observed() *cri.Observed
	// Remove removes the given dead containers and sandboxes. What is gone is
	// no error.
	Remove(ctx context.Context, pod *cri.Pod) error
}

// ContainersConfig is what Containers is made of. Every field but Log is
// needed.
type ContainersConfig struct {
	Policy  ContainerPolicy
	Runtime PodRuntime
	// Collectable reports whether a pod goes on and its garbage may be
	// removed. Pods that end are cleared by whoever ends them; those that
	// might still be wanted by a source that has not delivered are left alone.
	Collectable func(uid types.UID) bool
	// Ended reports whether a pod that goes on in name has ended its run, so
	// that Reclaim may take all that is dead of it; nil says of none.
	RunState func(uid types.UID) RunState
	Files    Files
	Events   Recorder
	Log      *slog.Logger
}

// Containers removes dead containers, sandboxes and their files. It works when
// it is woken, and while a removal is due.
type Containers struct {
	cfg  ContainersConfig
	wake chan struct{}

	// mu is held during a round. It guards what follows.
	mu sync.Mutex
	// restarts by pod are the highest restart counts seen: new files are left
	// behind only when one rises.
	restarts map[types.UID]int
	swept    bool
}

// NewContainers makes a collector. It starts nothing.
func NewContainers(cfg ContainersConfig) *Containers {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Containers{cfg: cfg, wake: make(chan struct{}, 1), restarts: map[types.UID]int{}}
}

// Wake asks for a round and returns at once. Requests coalesce.
func (g *Containers) Wake() {
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run works until ctx ends.
func (g *Containers) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.wake:
		case <-timer.C:
		}
		if next, _, _ := g.round(ctx, false); next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
	}
}

// Reclaim is a round at once, because a disk is full: beyond what a round takes
// it removes everything that is dead of pods whose run has ended, their last
// containers and so their logs too. Their statuses stay. It returns how many
// containers and sandboxes went; one that cannot be removed does not stop the
// others.
func (g *Containers) Reclaim(ctx context.Context) (removed int, err error) {
	_, gone, err := g.round(ctx, true)
	for _, pod := range gone {
		removed += len(pod.Containers) + len(pod.Sandboxes)
	}
	return removed, err
}

// round removes what there is to remove and returns when it has to be looked
// at again even if nothing changes; zero is never. What is removed because of
// want goes beyond the policy.
func (g *Containers) round(ctx context.Context, want bool) (next time.Time, removed map[types.UID]*cri.Pod, err error) {
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
		if want && g.cfg.RunState != nil {
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

// merge is the garbage of pods with that of ended ones in its place, which has
// more.
func merge(pods, ended []*cri.Pod) []*cri.Pod {
	more := make(map[types.UID]bool, len(ended))
	for _, pod := range ended {
		more[pod.UID] = true
	}
	return append(slices.DeleteFunc(pods, func(pod *cri.Pod) bool { return more[pod.UID] }), ended...)
}

// remove removes garbage and the files of what was removed. One pod's failure
// does not stop the others.
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
			g.cfg.Log.Debug("Dead containers removed", "pod", pod.FullName(), "containers", len(pod.Containers), "sandboxes", len(pod.Sandboxes))
		})
	}
	all.Wait()
	return removed, errors.Join(errs...)
}

// sweep removes the files of what is gone: of containers that this round
// removed, and of pods in which a container was started anew since the last
// round, whoever removed the instance before.
func (g *Containers) sweep(pods []*cri.Pod, removed map[types.UID]*cri.Pod) {
	if !g.swept {
		g.swept = true
		g.cfg.Files.removeDanglingLinks()
	}
	var links []string // the logs that went
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
