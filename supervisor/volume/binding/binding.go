package binding

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/manifest/validation"
)

// Binding is a claim with its volume.
type Binding struct {
	Namespace string `json:"namespace"`
	Claim     string `json:"claim"`
	// Volume is the volume as it was when it was bound, which is in effect until the
	// binding is removed.
	Volume *v1.PersistentVolume `json:"volume"`
	// Provisioned: a class has made the volume, a hostPath, for the claim.
	Provisioned bool `json:"provisioned,omitempty"`
	// MountPoint is what must be mounted for a provisioned volume; empty is any mount
	// point other than the root directory.
	MountPoint string `json:"mountPoint,omitempty"`
	// Used: a pod has used the volume. The directory of a provisioned one must exist then.
	// Before, the claim is bound again if what is declared has changed.
	Used bool `json:"used,omitempty"`
	// Deleting: the volume is being deleted, and no pod may use it any more.
	Deleting bool `json:"deleting,omitempty"`
}

// IsOf reports whether it is the binding of a claim.
func (b *Binding) IsOf(namespace, claim string) bool {
	return b.Namespace == namespace && b.Claim == claim
}

// Request is a claim that is not bound, and what it can be bound to.
type Request struct {
	Claim *v1.PersistentVolumeClaim
	// Claims, Volumes and Classes are those that manifests declare; Claim may be among them.
	Claims  []*v1.PersistentVolumeClaim
	Volumes []*v1.PersistentVolume
	Classes []*storagev1.StorageClass
	// Bound are the existing bindings.
	Bound []Binding
	// OnNode reports whether this node matches the affinity of a volume.
	OnNode func(*v1.NodeSelector) bool
}

// Choose returns the binding of a claim; nil if the claim is a directory of its own,
// which is so without a class, a selector and a volume name unless a volume fits. The
// error reports why the claim cannot be bound, and what would bind it.
func Choose(r *Request) (*Binding, error) {
	class, err := className(r)
	if err != nil {
		return nil, err
	}
	c := chooser{Request: r, class: class}
	spec := &r.Claim.Spec
	if spec.VolumeName != "" {
		return c.named(spec.VolumeName)
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return nil, err
	}
	if spec.Selector == nil {
		selector = labels.Everything()
	}
	if volume := c.smallest(selector); volume != nil {
		return bind(r.Claim, volume), nil
	}
	i := slices.IndexFunc(r.Classes, func(k *storagev1.StorageClass) bool { return k.Name == class })
	switch {
	case IsBlock(spec.VolumeMode): // a directory is not a device
	case spec.Selector == nil && class == "":
		return nil, nil
	case spec.Selector == nil && i >= 0 && r.Classes[i].Provisioner == validation.ProvisionerDirectory:
		made := provision(r.Claim, r.Classes[i])
		if err := c.overlap(made); err != nil {
			return nil, err
		}
		return made, nil
	}
	return nil, c.unbound(selector, i)
}

// IsBlock reports whether a volume mode is Block; absent is Filesystem.
func IsBlock(mode *v1.PersistentVolumeMode) bool {
	return mode != nil && *mode == v1.PersistentVolumeBlock
}

// ModeOf returns a volume mode, of which absent is Filesystem.
func ModeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

// className returns the class of a claim: its own, or the default, empty if there is
// none.
func className(r *Request) (string, error) {
	if r.Claim.Spec.StorageClassName != nil {
		return *r.Claim.Spec.StorageClassName, nil
	}
	return DefaultClass(r.Classes)
}

// bind returns the binding of a declared volume.
func bind(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) *Binding {
	bound := volume.DeepCopy()
	bound.ResourceVersion, bound.Annotations, bound.ManagedFields = "", nil, nil
	bound.Spec.ClaimRef = claimRef(claim)
	return &Binding{Namespace: claim.Namespace, Claim: claim.Name, Volume: bound}
}

// provision returns the binding of a volume that the class makes: a directory that is
// named by the claim, so that the claim has its data again after it was removed.
func provision(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) *Binding {
	policy := v1.PersistentVolumeReclaimRetain
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	mode := v1.PersistentVolumeFilesystem
	volume := &v1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: manifest.KindVolume},
		ObjectMeta: metav1.ObjectMeta{Name: claim.Namespace + "." + claim.Name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{
				Path: class.Parameters[validation.ParameterPath] + "/" + claim.Namespace + "/" + claim.Name,
			}},
			AccessModes:                   slices.Clone(claim.Spec.AccessModes),
			ClaimRef:                      claimRef(claim),
			PersistentVolumeReclaimPolicy: policy,
			StorageClassName:              class.Name,
			VolumeMode:                    &mode,
		},
	}
	return &Binding{
		Namespace: claim.Namespace, Claim: claim.Name, Volume: volume,
		Provisioned: true, MountPoint: class.Parameters[validation.ParameterMountPoint],
	}
}

func claimRef(claim *v1.PersistentVolumeClaim) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: manifest.KindClaim, APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name}
}
