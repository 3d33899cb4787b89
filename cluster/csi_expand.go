package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// expansionPace is the time after which a bound claim is requested again, at least, if its driver can expand
// the volume: a node may not watch claims. A kubelet requests it at each sync of the pod, which is about as often.
const expansionPace = time.Minute

// expansion is how the expansion of a volume on this node has ended.
type expansion struct {
	bytes   int64
	failure error
}

// CSIExpansion returns the capacity in bytes to which the driver of a bound volume is to expand it on this node,
// if it has not done so; 0 is none. The controllers of the cluster have done their part then.
func (o *Objects) CSIExpansion(pod *v1.Pod, volume *v1.Volume) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims[claimOf(pod, volume)]
	if c == nil || c.volume == nil || c.volume.Spec.CSI == nil || !awaitsNode(c.claim, c.volume) {
		return 0
	}
	return c.volume.Spec.Capacity.Storage().Value()
}

// CSIExpanded takes how an expansion has ended, for the status of the claim.
func (o *Objects) CSIExpanded(pod *v1.Pod, volume *v1.Volume, bytes int64, failure error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims[claimOf(pod, volume)]
	if c == nil || c.volume == nil {
		return
	}
	ended := &expansion{bytes, failure}
	if ended.patch(c.claim, c.volume) == nil {
		return // the status reports it already
	}
	c.ended = ended
	c.wake.Notify()
}

// awaitsNode reports whether the controllers let the node expand a volume. Without a status of the
// expansion, they are of a version that has none, or nothing is expanded.
func awaitsNode(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) bool {
	switch claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] {
	case v1.PersistentVolumeClaimNodeResizePending, v1.PersistentVolumeClaimNodeResizeInProgress:
		return true
	case "":
		_, allocated := claim.Status.AllocatedResources[v1.ResourceStorage]
		return !allocated || !isLarger(volume, claim)
	}
	return false
}

// isLarger reports whether a volume has a larger capacity than the status of its claim reports.
func isLarger(volume *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) bool {
	return volume.Spec.Capacity.Storage().Cmp(*claim.Status.Capacity.Storage()) > 0
}

// claimPatch is a strategic merge patch of the status of a claim. The API server refuses it if the claim has
// changed since it was read.
type claimPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status claimPatchStatus `json:"status"`
}

type claimPatchStatus struct {
	Capacity v1.ResourceList `json:"capacity,omitempty"`
	// Statuses has nil for what is to be removed.
	Statuses   map[v1.ResourceName]*v1.ClaimResourceStatus `json:"allocatedResourceStatuses,omitempty"`
	Conditions []any                                       `json:"conditions,omitempty"`
}

func patchOf(claim *v1.PersistentVolumeClaim) *claimPatch {
	p := &claimPatch{}
	p.Metadata.UID, p.Metadata.ResourceVersion = claim.UID, claim.ResourceVersion
	return p
}

func (p *claimPatch) setStatus(status *v1.ClaimResourceStatus) {
	p.Status.Statuses = map[v1.ResourceName]*v1.ClaimResourceStatus{v1.ResourceStorage: status}
}

// removedCondition removes a condition from a status.
type removedCondition struct {
	Patch string                                `json:"$patch"`
	Type  v1.PersistentVolumeClaimConditionType `json:"type"`
}

// patch returns what changes in the status of the claim by the end of an expansion; nil if nothing does.
func (e *expansion) patch(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) *claimPatch {
	size := volume.Spec.Capacity.Storage()
	if size.Value() != e.bytes || !isLarger(volume, claim) {
		return nil
	}
	p := patchOf(claim)
	_, hasStatus := claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	switch {
	case e.failure == nil:
		p.Status.Capacity = v1.ResourceList{v1.ResourceStorage: *size}
		if hasStatus {
			p.setStatus(nil)
		}
		for _, ended := range []v1.PersistentVolumeClaimConditionType{
			v1.PersistentVolumeClaimResizing, v1.PersistentVolumeClaimFileSystemResizePending,
			v1.PersistentVolumeClaimControllerResizeError, v1.PersistentVolumeClaimNodeResizeError,
		} {
			p.Status.Conditions = append(p.Status.Conditions, removedCondition{Patch: "delete", Type: ended})
		}
		return p
	case hasStatus && errors.Is(e.failure, csivolume.ErrInfeasible):
		infeasible := v1.PersistentVolumeClaimNodeResizeInfeasible
		p.setStatus(&infeasible)
		p.Status.Conditions = []any{v1.PersistentVolumeClaimCondition{
			Type: v1.PersistentVolumeClaimNodeResizeError, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Message: e.failure.Error(),
		}}
		return p
	}
	return nil // the driver is called again
}

// beginExpansion records in the claim that its volume is being expanded on the node, which the controllers
// want to know, and returns the claim. A failure keeps nothing from being expanded, and so does a driver that is not
// there yet.
func beginExpansion(ctx context.Context, a *Adapter, key claimKey, claim *v1.PersistentVolumeClaim,
	volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	source := volume.Spec.CSI
	if source == nil || source.ReadOnly || key.readOnly || !a.expands(source.Driver) {
		return claim
	}
	if claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] != v1.PersistentVolumeClaimNodeResizePending ||
		!isLarger(volume, claim) {
		return claim
	}
	p := patchOf(claim)
	begun := v1.PersistentVolumeClaimNodeResizeInProgress
	p.setStatus(&begun)
	made, err := patchClaim(ctx, a, claim, p)
	if err != nil {
		a.cfg.Log.Warn("Failed to record that a volume is being expanded; it is expanded nevertheless", "claim",
			claim.Namespace+"/"+claim.Name, "err", err)
		return claim
	}
	return made
}

// patchClaim patches the status of a claim, and returns the claim.
func patchClaim(ctx context.Context, a *Adapter, claim *v1.PersistentVolumeClaim,
	p *claimPatch) (*v1.PersistentVolumeClaim, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	made := &v1.PersistentVolumeClaim{}
	err = a.client.core.Patch(types.StrategicMergePatchType).Namespace(claim.Namespace).Resource(
		"persistentvolumeclaims").Name(claim.Name).
		SubResource("status").Body(body).Do(ctx).Into(made)
	if err != nil {
		return nil, err
	}
	return reducedClaim(made), nil
}

// followExpansion notices when a controller has expanded the volume of a bound claim, and reports how the node has
// expanded it.
func (o *Objects) followExpansion(ctx context.Context, a *Adapter, key claimKey, c *boundClaim) {
	failures, last := 0, ""
	for {
		select {
		case <-c.wake.C():
		case <-time.After(expansionPace + rand.N(expansionPace/2)):
			if !a.expands(c.volume.Spec.CSI.Driver) {
				continue
			}
		case <-ctx.Done():
			return
		}
		err := o.requestInTurn(ctx, func(ctx context.Context) error { return o.updateExpansion(ctx, a, key, c) })
		switch {
		case err == nil:
			failures, last = 0, ""
			continue
		case ctx.Err() != nil:
			return
		case !a.connection.isOwnError(err) || apierrors.IsConflict(err):
		case err.Error() != last:
			last = err.Error()
			a.cfg.Log.Warn("Failed to follow the size of a claim in the cluster", "claim", key.namespace+"/"+key.name, "err",
				err)
		}
		failures++
		if !a.connection.backoff(ctx, failures) {
			return
		}
		o.mu.Lock()
		if c.ended != nil {
			c.wake.Notify()
		}
		o.mu.Unlock()
	}
}

// expands reports whether a driver can expand volumes on this node.
func (a *Adapter) expands(name string) bool {
	if a.cfg.Storage == nil {
		return false
	}
	for _, d := range a.cfg.Storage.Drivers() {
		if d.Name == name {
			return d.Expands
		}
	}
	return false
}

// updateExpansion requests a bound claim again, with its volume if the claim has changed, and writes to its status
// what has ended on the node. A claim that a pod cannot use any more stays what it was.
func (o *Objects) updateExpansion(ctx context.Context, a *Adapter, key claimKey, c *boundClaim) error {
	o.mu.Lock()
	known, used, ended := c.claim, c.volume, c.ended
	o.mu.Unlock()
	claim := &v1.PersistentVolumeClaim{}
	err := a.client.core.Get().Namespace(key.namespace).Resource("persistentvolumeclaims").Name(key.name).Do(ctx).Into(
		claim)
	switch {
	case apierrors.IsNotFound(err) || err == nil && claim.UID != known.UID:
		o.endExpansion(c, ended)
		return nil
	case err != nil:
		return err
	case claim.ResourceVersion == known.ResourceVersion && ended == nil:
		return nil
	}
	claim, volume, err := o.requestClaim(ctx, a, key)
	var unusable *unusableClaim
	switch {
	case err != nil && !errors.As(err, &unusable):
		return err
	case volume == nil || claim.UID != known.UID || !isSameVolume(volume, used): // one that is being deleted is there
		o.endExpansion(c, ended)
		return nil
	}
	claim = beginExpansion(ctx, a, key, claim, volume)
	if ended != nil {
		if p := ended.patch(claim, volume); p != nil {
			if claim, err = patchClaim(ctx, a, claim, p); err != nil {
				return err
			}
		}
		o.endExpansion(c, ended)
	}
	o.setSize(key.namespace, c, claim, volume)
	return nil
}

// isSameVolume reports whether a volume is that which a pod uses: not another one that has replaced its object.
func isSameVolume(volume, used *v1.PersistentVolume) bool {
	return volume.UID == used.UID && volume.Spec.CSI != nil && volume.Spec.CSI.Driver == used.Spec.CSI.Driver &&
		volume.Spec.CSI.VolumeHandle == used.Spec.CSI.VolumeHandle
}

// setSize takes a claim and its volume with other sizes, which need about as much memory as before.
func (o *Objects) setSize(namespace string, c *boundClaim, claim *v1.PersistentVolumeClaim,
	volume *v1.PersistentVolume) {
	size := claimMemory(claim, volume)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !c.dropped {
		o.resizeClaim(namespace, c, size)
	}
	c.claim, c.volume = claim, volume
	o.subscribers.Notify()
}

// endExpansion forgets what has been reported, or cannot be.
func (o *Objects) endExpansion(c *boundClaim, reported *expansion) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.ended == reported {
		c.ended = nil
	}
}
