package volume

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// Keys of the attributes with which a driver gets to know the pod, the kubelet's.
const (
	attributePodName   = "csi.storage.k8s.io/pod.name"
	attributeNamespace = "csi.storage.k8s.io/pod.namespace"
	attributePodUID    = "csi.storage.k8s.io/pod.uid"
	attributeAccount   = "csi.storage.k8s.io/serviceAccount.name"
	attributeEphemeral = "csi.storage.k8s.io/ephemeral"
)

// CSI publishes volumes of CSI drivers. Only Publish, Republish, Expand and Unpublish may take their time. Implemented
// by csi.Manager.
type CSI interface {
	// Publish returns the path of a volume that is ready for the pod. What is published already is
	// left alone.
	Publish(ctx context.Context, v *csivolume.Volume) (string, error)
	// Republish calls the driver of a published volume again, if that is due.
	Republish(ctx context.Context, v *csivolume.Volume) error
	// Expand lets the driver expand a published volume to its capacity in bytes, unless it has that already, and
	// reports whether the driver has done so since the last call. The error is csivolume.ErrExpanding if it has not
	// responded yet, and csivolume.ErrInfeasible if it never will.
	Expand(ctx context.Context, v *csivolume.Volume, bytes int64) (expanded bool, err error)
	// Unpublish ends the use of all volumes of a pod. After an error it is to be called again.
	Unpublish(ctx context.Context, uid types.UID) error
	// Pods returns the pods whose volumes are still to be unpublished.
	Pods() ([]types.UID, error)
	// Labeled reports whether the files of a published volume can have SELinux labels.
	Labeled(path string) bool
}

var errNoCSI = errors.New("this daemon cannot use CSI drivers")

// setupPersistentCSI publishes the PersistentVolume to which a claim is bound.
func (s *setup) setupPersistentCSI(ctx context.Context, c *claimVolume, bound *binding.Binding,
	claim *v1.PersistentVolumeClaim) (Mounted, error) {
	spec := &bound.Volume.Spec
	source := spec.CSI
	v := &csivolume.Volume{
		Driver: source.Driver, Handle: source.VolumeHandle, Pod: s.req.Pod.UID, Name: c.name,
		ReadOnly: c.readOnly(claim) || source.ReadOnly, FSType: source.FSType, MountOptions: spec.MountOptions,
		Context: source.VolumeAttributes,
	}
	if v.Block = binding.IsBlock(spec.VolumeMode); v.Block {
		v.FSType, v.MountOptions = "", nil
	}
	if len(spec.AccessModes) > 0 {
		v.AccessMode = spec.AccessModes[0]
	}
	if v.Secrets.Stage, v.PublishBlocked = s.secretOf(source.NodeStageSecretRef); v.PublishBlocked == nil {
		v.Secrets.Publish, v.PublishBlocked = s.secretOf(source.NodePublishSecretRef)
	}
	v.Secrets.Expand, v.ExpandBlocked = s.secretOf(source.NodeExpandSecretRef)
	if c.cluster {
		v.Capacity = claim.Status.Capacity.Storage().Value()
	}
	mounted, err := s.publishCSI(ctx, v, bound.Volume)
	if err != nil {
		return Mounted{}, fmt.Errorf("PersistentVolume %s: %w", bound.Volume.Name, err)
	}
	expand := s.expandCSI
	if c.cluster {
		expand = s.expandForCluster
	}
	if err := expand(ctx, c, v, bound); err != nil && !errors.Is(err, csivolume.ErrExpanding) {
		s.unexpanded = append(s.unexpanded,
			fmt.Errorf("NodeExpandVolume failed for volume %q : PersistentVolume %s: %w", c.name, bound.Volume.Name, err))
	}
	return mounted, nil
}

// useCSI gives a pod the volume of a driver to which its claim is bound. The use is recorded before
// the volume is published: no other pod gets one that is for one pod only.
func (s *setup) useCSI(ctx context.Context, c *claimVolume, bound *binding.Binding, claim *v1.PersistentVolumeClaim,
	held bool) (Mounted, error) {
	if !held {
		if err := s.recordUse(c, claim); err != nil {
			return Mounted{}, err
		}
		if !c.cluster {
			s.reportChange(bound, claim)
		}
	}
	mounted, err := s.setupPersistentCSI(ctx, c, bound, claim)
	if err != nil {
		return Mounted{}, err
	}
	if mounted.Device {
		return mounted, nil // its usage is not known
	}
	if link := c.path(pluginClaim); !linksTo(link, mounted.Path) { // for its usage
		err = linkTo(link, mounted.Path)
	}
	return mounted, err
}

// setupInlineCSI publishes a volume that is declared in the pod.
func (s *setup) setupInlineCSI(ctx context.Context, vol *v1.Volume) (Mounted, error) {
	pod, source := s.req.Pod, vol.CSI
	v := &csivolume.Volume{
		Driver: source.Driver, Pod: pod.UID, Name: vol.Name, Ephemeral: true, ReadOnly: source.ReadOnly != nil &&
			*source.ReadOnly,
		// The kubelet's: unique for the pod and the volume.
		Handle:     fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(pod.UID)+vol.Name))),
		AccessMode: v1.ReadWriteOnce, Context: source.VolumeAttributes,
	}
	if source.FSType != nil {
		v.FSType = *source.FSType
	}
	if ref := source.NodePublishSecretRef; ref != nil {
		v.Secrets.Publish, v.PublishBlocked = s.secretOf(&v1.SecretReference{Namespace: pod.Namespace, Name: ref.Name})
	}
	return s.publishCSI(ctx, v, nil)
}

// podAttributes describes the pod to a driver.
func (s *setup) podAttributes(ephemeral bool) map[string]string {
	pod := s.req.Pod
	return map[string]string{
		attributePodName: pod.Name, attributeNamespace: pod.Namespace, attributePodUID: string(pod.UID),
		attributeAccount: pod.Spec.ServiceAccountName, attributeEphemeral: strconv.FormatBool(ephemeral),
	}
}

// publishCSI publishes a volume, that of a PersistentVolume or, if it is nil, one that is declared in the pod.
func (s *setup) publishCSI(ctx context.Context, v *csivolume.Volume, persistent *v1.PersistentVolume) (Mounted, error) {
	if s.CSI == nil {
		return Mounted{}, errNoCSI
	}
	s.applyDriver(v, persistent)
	path, err := s.CSI.Publish(ctx, v)
	if err != nil {
		return Mounted{}, err
	}
	if v.Republish {
		if err := s.CSI.Republish(ctx, v); err != nil {
			s.addStale(err)
		}
	}
	if v.Block {
		path, err = filepath.EvalSymlinks(path)
		return Mounted{Path: path, ReadOnly: v.ReadOnly, Device: true}, err
	}
	return Mounted{Path: path, ReadOnly: v.ReadOnly, Relabel: !v.ReadOnly && s.CSI.Labeled(path)}, nil
}

// secretOf returns the data of a Secret; nil without a reference.
func (s *setup) secretOf(to *v1.SecretReference) (map[string]string, error) {
	if to == nil {
		return nil, nil
	}
	secret, ok := s.req.Objects.Secret(to.Namespace, to.Name)
	if !ok {
		ref := manifest.ObjectRef{Kind: manifest.KindSecret, Namespace: to.Namespace, Name: to.Name}
		return nil, s.missing(ref, false)
	}
	data := make(map[string]string, len(secret.Data))
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data, nil
}

// unpublish ends the use of CSI volumes by a pod.
func (v *Volumes) unpublish(ctx context.Context, uid types.UID) error {
	if v.CSI == nil {
		return nil
	}
	return v.CSI.Unpublish(ctx, uid)
}
