package supervisor

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// reasonFailedPrepare is for a pod whose resource claims cannot be prepared, the kubelet's.
const reasonFailedPrepare = "FailedPrepareDynamicResources"

// ResourceClaims prepares the devices of dynamic resource allocation for pods. Only Prepare and
// Unprepare may take their time. Implemented by dra.Manager.
type ResourceClaims interface {
	// Prepare prepares the claims of a pod. Unprepare gives back those of a pod of which nothing runs
	// any more, Retain those of all pods but those that keep reports.
	Prepare(ctx context.Context, pod *v1.Pod) error
	Unprepare(ctx context.Context, uid types.UID) error
	Retain(keep func(types.UID) bool)
	// Changed receives after a driver registered. TakeChanged returns the pods whose claims could not
	// be prepared.
	Changed() <-chan struct{}
	TakeChanged() []types.UID

	podinputs.ResourceClaims
}

// 9. prepareClaims prepares the resource claims of a pod that is about to get a sandbox. An API server
// or a driver that is slow delays this pod only.
func (a *syncAttempt) prepareClaims(ctx context.Context) *podworkers.SyncResult {
	if a.observed.HasReadySandbox() || !device.HasClaims(a.pod) {
		return nil
	}
	err := a.claims.Prepare(ctx, a.pod)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &podworkers.SyncResult{Err: err}
	}
	err = fmt.Errorf("failed to prepare dynamic resources: %w", err)
	a.events.Event(a.pod, v1.EventTypeWarning, reasonFailedPrepare, err.Error())
	return a.failedStart(reasonFailedPrepare, err.Error(), err)
}

// unprepareClaims gives back the resource claims of a pod that was stopped. Before that it has not
// ended: the cluster would allocate its devices to another pod.
func (a *terminatingAttempt) unprepareClaims(ctx context.Context) error {
	err := a.claims.Unprepare(ctx, a.pod.UID)
	if err != nil {
		err = fmt.Errorf("failed to unprepare dynamic resources: %w", err)
		a.reportKillFault(ctx, err)
	}
	return err
}

// handleClaims notifies the pods that wait for a driver.
func (s *Supervisor) handleClaims() {
	for _, uid := range s.cfg.Sources.Claims.TakeChanged() {
		s.workers.Notify(uid)
	}
}

// noClaims prepares nothing.
type noClaims struct{}

func (noClaims) Prepare(context.Context, *v1.Pod) error {
	return errors.New("the node has not joined a cluster")
}
func (noClaims) Unprepare(context.Context, types.UID) error          { return nil }
func (noClaims) Retain(func(types.UID) bool)                         {}
func (noClaims) Changed() <-chan struct{}                            { return nil }
func (noClaims) TakeChanged() []types.UID                            { return nil }
func (noClaims) CDIDevices(*v1.Pod, *v1.Container) ([]string, error) { return nil, nil }
