package supervisor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// podRuntime observes pods and acts on them through the runtime.
type podRuntime struct {
	observer Observer
	syncer   Syncer
}

// observe waits for an observation of a pod that is newer than the last act.
func (r podRuntime) observe(ctx context.Context, uid types.UID, lastAct time.Time) (*cri.PodStatus, error) {
	observed, err := r.observer.NewerThan(ctx, uid, lastAct)
	if err != nil {
		return nil, fmt.Errorf("failed to observe pod: %w", err)
	}
	return observed, nil
}

func (r podRuntime) remove(ctx context.Context, dead *cri.Pod) error {
	if err := r.syncer.Remove(ctx, dead); err != nil {
		return fmt.Errorf("failed to remove containers and sandboxes: %w", err)
	}
	return nil
}

// sandboxReady reports whether the pod has a ready sandbox.
func sandboxReady(observed *cri.PodStatus) bool {
	for i := range observed.Sandboxes {
		if observed.Sandboxes[i].Ready {
			return true
		}
	}
	return false
}
