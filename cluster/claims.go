package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wakeup"
)

// claimPace is the time that each claim which is not bound adds to the delay between two requests
// for it: many of them must not use up the rate limit of the other requests.
const claimPace = 200 * time.Millisecond

// claimKey identifies a PersistentVolumeClaim of a pod. Each pod reads its claims itself: a claim of
// the same name may be another one when the next pod uses it.
type claimKey struct {
	pod             types.UID
	namespace, name string
	// ephemeral: the claim was made for a generic ephemeral volume of the pod, and must be its. readOnly: the pod
	// only reads the volume.
	ephemeral, readOnly bool
}

// claimsOf returns the claims of a pod's volumes, each once.
func claimsOf(pod *v1.Pod) (keys uniqueList[claimKey]) {
	for i := range pod.Spec.Volumes {
		if key := claimOf(pod, &pod.Spec.Volumes[i]); key.name != "" {
			keys.add(key)
		}
	}
	return keys
}

// claimOf returns the claim of a volume; its name is empty if the volume has none.
func claimOf(pod *v1.Pod, volume *v1.Volume) claimKey {
	source := volume.PersistentVolumeClaim
	return claimKey{
		pod: pod.UID, namespace: pod.Namespace, name: podinfo.ClaimOf(pod, volume), ephemeral: volume.Ephemeral != nil,
		readOnly: source != nil && source.ReadOnly,
	}
}

// boundClaim is a claim with the PersistentVolume to which the cluster has bound it. Both are as
// they were when they could last be used, nil if they never could.
type boundClaim struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// size is what they need in memory, in bytes, which counts for the namespace. dropped reports that the claim is
	// not used any more.
	size    int
	dropped bool
	// err is why no pod may start to use the claim.
	err error
	// ended is an expansion that the API server does not know of yet; wake signals it.
	ended *expansion
	wake  wakeup.Signal
	stop  context.CancelFunc
}

// state changes with what a pod sees of the claim; known is false before the first response.
func (c *boundClaim) state() (state string, known bool) {
	switch {
	case c == nil || c.claim == nil && c.err == nil:
		return "?", false
	case c.err != nil:
		return "!" + c.err.Error(), true
	}
	status := c.claim.Status.AllocatedResourceStatuses[v1.ResourceStorage]
	return fmt.Sprintf("%s %s %s %s", c.claim.UID, c.volume.UID, c.volume.Spec.Capacity.Storage(), status), true
}

var errNotResponded = errors.New("the API server has not answered yet")

// BoundClaim returns the claim of a pod's volume and the PersistentVolume to which the cluster has
// bound it. The error is why no pod may start to use them; a pod that uses them already keeps what
// is returned, nil if it is not known. Both are shared and must not be written to.
func (o *Objects) BoundClaim(pod *v1.Pod, volume *v1.Volume) (*v1.PersistentVolumeClaim, *v1.PersistentVolume, error) {
	key := claimOf(pod, volume)
	o.mu.Lock()
	defer o.mu.Unlock()
	c := o.claims[key]
	switch {
	case c == nil || c.claim == nil && c.err == nil:
		return nil, nil, errNotResponded
	case c.err != nil:
		return c.claim, c.volume, c.err
	}
	return c.claim, c.volume, o.adapter.checkAffinity(c.volume)
}

// checkAffinity returns an error if a volume cannot be used on this node, by the labels of its Node
// object.
func (a *Adapter) checkAffinity(volume *v1.PersistentVolume) error {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	node := a.node()
	if node == nil {
		return errors.New("the labels of the node are not known: its Node object does not exist")
	}
	if podinfo.MatchesNode(affinity.Required, node.Name, node.Labels) {
		return nil
	}
	var unmatched []string
	for i := range affinity.Required.NodeSelectorTerms {
		unmatched = append(unmatched, podinfo.UnmatchedRequirement(&affinity.Required.NodeSelectorTerms[i], node.Name,
			node.Labels))
	}
	return fmt.Errorf("PersistentVolume %s is not for this node: the Node object matches no term of its nodeAffinity (%s)",
		volume.Name, strings.Join(unmatched, "; "))
}

// startClaim begins to read a claim.
func (o *Objects) startClaim(ctx context.Context, wg *sync.WaitGroup, a *Adapter, key claimKey) *boundClaim {
	c := &boundClaim{wake: wakeup.NewSignal()}
	ctx, c.stop = context.WithCancel(ctx)
	wg.Go(func() { o.keepClaim(ctx, a, key, c) })
	return c
}

// keepClaim reads one claim until it is bound to a volume: the claim keeps the volume from then on, and only
// its size changes.
// The Node authorizer grants a node to get the claims of its pods and their volumes, and neither to
// list nor to watch them.
func (o *Objects) keepClaim(ctx context.Context, a *Adapter, key claimKey, c *boundClaim) {
	var claim *v1.PersistentVolumeClaim
	var volume *v1.PersistentVolume
	o.requestUntil(ctx, a, func(ctx context.Context) (err error) {
		claim, volume, err = o.requestClaim(ctx, a, key)
		if err == nil {
			claim = beginExpansion(ctx, a, key, claim, volume)
		}
		if volume != nil && !o.claimFits(key.namespace, c, claim, volume) {
			claim, volume, err = nil, nil, unusable("is not kept: %v; use smaller ones", errObjectsTooLarge)
		}
		return err
	}, func(err error, failures int) { o.setClaimFault(c, claim, volume, err, failures) },
		func() { o.setClaim(c, claim, volume) })
	if ctx.Err() == nil && volume.Spec.CSI != nil && !key.readOnly {
		o.followExpansion(ctx, a, key, c)
	}
}

// requestUntil repeats a request for what a volume needs until it succeeds, and then calls done. refused receives
// what the API server responds in the meantime, with the number of such responses in a row.
func (o *Objects) requestUntil(ctx context.Context, a *Adapter, request func(context.Context) error,
	refused func(err error, failures int), done func()) {
	o.unbound.Add(1)
	defer o.unbound.Add(-1)
	for failures := 0; ; {
		err := o.requestInTurn(ctx, request)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			done()
			return
		}
		var waits *unusableClaim
		if errors.As(err, &waits) || a.connection.isOwnError(err) {
			failures++
			refused(err, failures)
		}
		pace := time.Duration(o.unbound.Load()) * claimPace
		if !a.connection.backoff(ctx, failures) || failures > 1 && !retry.Sleep(ctx, pace) {
			return
		}
	}
}

// requestInTurn limits how long a request takes, and how many are sent at once.
func (o *Objects) requestInTurn(ctx context.Context, request func(context.Context) error) error {
	select {
	case o.lists <- struct{}{}:
		defer func() { <-o.lists }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}

func (o *Objects) setClaim(c *boundClaim, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.claim, c.volume, c.err = claim, volume, nil
	o.subscribers.Notify()
	o.needCSI(volume)
}

// needCSI starts what a CSI volume needs, unless it has been started; mu is held.
func (o *Objects) needCSI(volume *v1.PersistentVolume) {
	if volume.Spec.CSI != nil {
		o.changed.Notify()
	}
}

// setClaimFault takes why a claim cannot be used. claim and volume are nil unless they can be used
// by a pod that has them already.
func (o *Objects) setClaimFault(c *boundClaim, claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume, err error,
	failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if volume != nil {
		c.claim, c.volume = claim, volume
		o.needCSI(volume)
	}
	// The API server learns a little later than the node which pods are bound to it.
	late := apierrors.IsForbidden(err) && failures < toleratedRefusals
	if late || c.err != nil && c.err.Error() == err.Error() {
		return
	}
	c.err = err
	o.subscribers.Notify()
}

// unusableClaim is why a claim that exists cannot be used by the pod.
type unusableClaim struct{ text string }

func (e *unusableClaim) Error() string { return e.text }

func unusable(format string, args ...any) error { return &unusableClaim{fmt.Sprintf(format, args...)} }

// requestClaim requests a claim and its volume, and checks both as the kubelet does. With an error,
// they are nil unless a pod that has them already can use them.
func (o *Objects) requestClaim(ctx context.Context, a *Adapter, key claimKey) (*v1.PersistentVolumeClaim,
	*v1.PersistentVolume, error) {
	claim := &v1.PersistentVolumeClaim{}
	err := a.client.core.Get().Namespace(key.namespace).Resource("persistentvolumeclaims").Name(key.name).Do(ctx).Into(
		claim)
	switch {
	case apierrors.IsNotFound(err) && key.ephemeral:
		return nil, nil, unusable("does not exist yet; the cluster's controller of ephemeral volumes creates it")
	case apierrors.IsNotFound(err):
		return nil, nil, unusable("does not exist in the cluster; create it")
	case err != nil:
		return nil, nil, fmt.Errorf("cannot be read from the API server: %w", err)
	}
	if err := checkBound(key, claim); err != nil {
		return nil, nil, err
	}
	volume := &v1.PersistentVolume{}
	err = a.client.core.Get().Resource("persistentvolumes").Name(claim.Spec.VolumeName).Do(ctx).Into(volume)
	switch {
	case apierrors.IsForbidden(err):
		// The Node authorizer goes by the volume's claimRef.
		return nil, nil, fmt.Errorf("PersistentVolume %s cannot be read from the API server, unless its spec.claimRef "+
			"names this claim: %w", claim.Spec.VolumeName, err)
	case err != nil:
		return nil, nil, fmt.Errorf("PersistentVolume %s cannot be read from the API server: %w", claim.Spec.VolumeName, err)
	}
	if err := checkClaimRef(claim, volume); err != nil {
		return nil, nil, err
	}
	err = nil
	if claim.DeletionTimestamp != nil {
		err = unusable("is being deleted; no pod may start to use it")
	}
	return reducedClaim(claim), reducedVolume(volume), err
}

// checkBound returns why a claim cannot be used.
func checkBound(key claimKey, claim *v1.PersistentVolumeClaim) error {
	switch owner := metav1.GetControllerOfNoCopy(claim); {
	case key.ephemeral && (owner == nil || owner.UID != key.pod):
		return unusable("was not created for the pod, which is not its owner; the ephemeral volume needs a claim of this " +
			"name: delete the claim, or rename the pod or the volume")
	case claim.Status.Phase == v1.ClaimLost:
		return unusable("has lost its PersistentVolume %s, which was deleted in the cluster; restore that, or replace the "+
			"claim", claim.Spec.VolumeName)
	case claim.Status.Phase != v1.ClaimBound || claim.Spec.VolumeName == "":
		return unusable("is not bound to a PersistentVolume in the cluster; kubectl -n %s describe pvc %s says why",
			claim.Namespace, claim.Name)
	}
	return nil
}

// checkClaimRef returns an error unless a volume is bound to a claim.
func checkClaimRef(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) error {
	ref := volume.Spec.ClaimRef
	switch {
	case ref == nil:
		return unusable("PersistentVolume %s is bound to no claim: it has no spec.claimRef", volume.Name)
	case ref.Namespace != claim.Namespace || ref.Name != claim.Name:
		return unusable("PersistentVolume %s is bound to the claim %s/%s", volume.Name, ref.Namespace, ref.Name)
	case ref.UID != claim.UID:
		return unusable("PersistentVolume %s is bound to a claim of the same name with UID %s, and this one has %s",
			volume.Name, ref.UID, claim.UID)
	}
	return nil
}
