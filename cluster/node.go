package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// requestTimeout limits one request.
const requestTimeout = 10 * time.Second

// syncNode takes the next step for the Node object, and returns when to check
// again without a notification.
func (a *Adapter) syncNode(ctx context.Context) (time.Duration, error) {
	objects, synced := a.nodes.Objects()
	if !synced {
		return 0, nil // the watch notifies
	}
	a.certificates.check()
	local, now := a.withAttachment(a.cfg.Node()), time.Now()
	registered := objects["/"+local.Name]
	shown := &a.cfg.Registration
	switch {
	case registered == nil && shown.External:
		return 0, nil // the watch notifies
	case registered == nil:
		node := newNode(local, shown.Taints, shown.ProviderID, now)
		if shown.ExternalCloud {
			node = uninitialized(node)
		}
		return shown.StatusInterval, a.register(ctx, node)
	}
	local = a.withStorage(local, registered)
	labels, err := labelsPatch(local, registered)
	if err != nil {
		return 0, err
	}
	if labels != nil {
		if registered, err = a.patchNode(ctx, registered, labels); err != nil {
			return 0, fmt.Errorf("failed to update node labels: %w", err)
		}
	}
	if err := a.reportStatus(ctx, local, registered, now); err != nil {
		return 0, fmt.Errorf("failed to update node status: %w", err)
	}
	a.updatePodCIDR(ctx, local, registered)
	return shown.StatusInterval, a.syncTopology(ctx, registered)
}

// annotationAttachment lets the attach-detach controller of the cluster manage a node. The controller attaches no
// volume to a node without it.
const annotationAttachment = "volumes.kubernetes.io/controller-managed-attach-detach"

// withAttachment returns the node with the annotation that lets the cluster attach the volumes of CSI drivers.
func (a *Adapter) withAttachment(local *v1.Node) *v1.Node {
	if a.cfg.Storage == nil {
		return local
	}
	node := *local
	node.Annotations = maps.Clone(local.Annotations)
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, annotationAttachment, "true")
	return &node
}

// reportStatus sends the node status if it changed, or if the report is due. A
// difference that remained after the last report is one that the API server does not
// keep, such as a field of a later release, and is not sent again before that.
func (a *Adapter) reportStatus(ctx context.Context, local, registered *v1.Node, now time.Time) error {
	external := a.cfg.Registration.ExternalCloud
	diff, err := nodeStatusDiff(local, registered, external)
	due := now.Sub(a.reported) >= a.cfg.Registration.ReportInterval
	if err != nil || !due && (diff == nil || bytes.Equal(diff, a.keptDiff)) {
		return err
	}
	report, err := nodeStatusReport(local, registered, external, now)
	if err != nil || report == nil {
		return err
	}
	made, err := a.patchNode(ctx, registered, report, "status")
	if err != nil {
		return err
	}
	a.reported = now
	a.keptDiff, err = nodeStatusDiff(local, made, external)
	return err
}

// register creates the Node object. The watch shows one that exists.
func (a *Adapter) register(ctx context.Context, node *v1.Node) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	made := &v1.Node{}
	err := a.client.core.Post().Resource("nodes").Body(node).Do(ctx).Into(made)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil
	case err != nil:
		return fmt.Errorf("failed to register node: %w", err)
	}
	a.reported = time.Now()
	a.nodes.Stored(made)
	a.cfg.Log.Info("Node registered", "node", made.Name)
	return nil
}

// patchNode patches the Node object and returns the result.
func (a *Adapter) patchNode(ctx context.Context, node *v1.Node, body []byte, subresource ...string) (*v1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	made := &v1.Node{}
	err := a.client.nodeStatus.Patch(types.MergePatchType).Resource("nodes").Name(node.Name).SubResource(
		subresource...).Body(body).Do(ctx).Into(made)
	if err != nil {
		return nil, err
	}
	a.nodes.Stored(made)
	return made, nil
}

// node returns the registered node, nil if there is none.
func (a *Adapter) node() *v1.Node {
	objects, _ := a.nodes.Objects()
	return objects["/"+a.name]
}

// Taints returns the taints of the registered node.
func (a *Adapter) Taints() []v1.Taint {
	if n := a.node(); n != nil {
		return n.Spec.Taints
	}
	return nil
}
