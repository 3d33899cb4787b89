package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// attachmentKey identifies a volume that a controller attaches to this node before a pod uses it. Each pod
// reads it itself: the volume may be detached between two pods.
type attachmentKey struct {
	pod            types.UID
	driver, handle string
}

func attachmentOf(pod *v1.Pod, source *v1.CSIPersistentVolumeSource) attachmentKey {
	return attachmentKey{pod: pod.UID, driver: source.Driver, handle: source.VolumeHandle}
}

// object returns the name of the VolumeAttachment, which Kubernetes derives from what it attaches.
func (k attachmentKey) object(node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(k.handle+k.driver+node)))
}

// attachment is what is known of an attachment.
type attachment struct {
	attached bool
	metadata map[string]string
	// err is what is awaited, or why it cannot be read.
	err  error
	stop context.CancelFunc
}

func (t *attachment) state() string {
	switch {
	case t == nil || !t.attached && t.err == nil:
		return "?"
	case !t.attached:
		return "!" + t.err.Error()
	}
	return "attached"
}

// CSIAttachment returns what the controller that has attached a volume to this node tells the driver. The
// error is what is awaited. The Node object must say that the volume is attached and in use: a controller that detaches
// it withdraws the one, and then looks whether the node reports the other, before it deletes the VolumeAttachment.
func (o *Objects) CSIAttachment(pod *v1.Pod, volume *v1.PersistentVolume) (map[string]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t := o.attachments[attachmentOf(pod, volume.Spec.CSI)]
	switch {
	case t == nil || !t.attached && t.err == nil:
		return nil, fmt.Errorf("VolumeAttachment of PersistentVolume %s: %w", volume.Name, errNotResponded)
	case !t.attached:
		return nil, t.err
	case !o.adapter.reportsAttached(attachmentOf(pod, volume.Spec.CSI).id()):
		return nil, fmt.Errorf("PersistentVolume %s is attached; the pod waits until status.volumesAttached of the Node "+
			"object, which the cluster's attach-detach controller writes, has it", volume.Name)
	case !o.adapter.reportsInUse(attachmentOf(pod, volume.Spec.CSI).id()):
		return nil, fmt.Errorf("PersistentVolume %s is attached; the pod waits until status.volumesInUse of the Node "+
			"object, which podstead reports, keeps it attached", volume.Name)
	}
	return t.metadata, nil
}

// id returns the volume.
func (k attachmentKey) id() csivolume.ID { return csivolume.ID{Driver: k.driver, Handle: k.handle} }

// attaching returns the volumes that pods use or are going to use.
func (o *Objects) attaching() (ids []csivolume.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range o.attachments {
		ids = append(ids, key.id())
	}
	return ids
}

// nodeChanged notifies the pods that wait until the Node object has their volumes in use.
func (o *Objects) nodeChanged() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.attachments) > 0 {
		o.subscribers.Notify()
	}
}

// startAttachment begins to read an attachment.
func (o *Objects) startAttachment(ctx context.Context, wg *sync.WaitGroup, a *Adapter, key attachmentKey) *attachment {
	t := &attachment{}
	ctx, t.stop = context.WithCancel(ctx)
	wg.Go(func() { o.keepAttachment(ctx, a, key, t) })
	return t
}

// keepAttachment reads one attachment until the volume is attached: it stays so while a pod of the node uses
// it. The Node authorizer grants a node to get the attachments of its own, and neither to list nor to
// watch them.
func (o *Objects) keepAttachment(ctx context.Context, a *Adapter, key attachmentKey, t *attachment) {
	var metadata map[string]string
	o.requestUntil(ctx, a, func(ctx context.Context) (err error) {
		metadata, err = requestAttachment(ctx, a, key)
		return err
	}, func(err error, failures int) {
		// The API server learns a little later than the node which volumes are attached to it.
		if !apierrors.IsForbidden(err) || failures >= toleratedRefusals {
			o.setAttachment(t, nil, err)
		}
	}, func() { o.setAttachment(t, metadata, nil) })
}

func (o *Objects) setAttachment(t *attachment, metadata map[string]string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && t.err != nil && t.err.Error() == err.Error() {
		return
	}
	t.attached, t.metadata, t.err = err == nil, metadata, err
	o.subscribers.Notify()
}

// volumeAttachment is the part of a VolumeAttachment (storage.k8s.io/v1) that a node reads.
type volumeAttachment struct {
	Metadata struct {
		DeletionTimestamp *metav1.Time `json:"deletionTimestamp"`
	} `json:"metadata"`
	Status struct {
		Attached bool              `json:"attached"`
		Metadata map[string]string `json:"attachmentMetadata"`
		Error    *struct {
			Message string `json:"message"`
		} `json:"attachError"`
	} `json:"status"`
}

// requestAttachment requests an attachment, and returns its metadata once the volume is attached.
func requestAttachment(ctx context.Context, a *Adapter, key attachmentKey) (map[string]string, error) {
	name := key.object(a.name)
	data, err := a.client.storage.Get().Resource("volumeattachments").Name(name).SetHeader("Accept",
		"application/json").Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		return nil, unusable("volume %s of CSI driver %s is not attached to this node yet: the cluster's controller "+
			"creates VolumeAttachment %s; if the driver needs none, set spec.attachRequired: false in its CSIDriver object",
			key.handle, key.driver, name)
	case err != nil:
		return nil, fmt.Errorf("VolumeAttachment %s cannot be read from the API server: %w", name, err)
	}
	var found volumeAttachment
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, unusable("the API server sent something else than VolumeAttachment %s: %v", name, err)
	}
	switch {
	case found.Metadata.DeletionTimestamp != nil:
		return nil, unusable("volume %s of CSI driver %s is being detached from this node by VolumeAttachment %s; the pod "+
			"waits until it is attached again", key.handle, key.driver, name)
	case !found.Status.Attached && found.Status.Error != nil:
		return nil, unusable("volume %s of CSI driver %s cannot be attached to this node: %s; VolumeAttachment %s has the "+
			"details",
			key.handle, key.driver, found.Status.Error.Message, name)
	case !found.Status.Attached:
		return nil, unusable("volume %s of CSI driver %s is not attached to this node yet: VolumeAttachment %s waits for "+
			"the driver's attacher", key.handle, key.driver, name)
	}
	return found.Status.Metadata, nil
}
