package binding

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podstead/podstead/manifest/validation"
)

// maxFaults limits how many volumes an error describes.
const maxFaults = 5

// chooser chooses among the volumes for a claim of a class.
type chooser struct {
	*Request
	class string
}

// DefaultClass returns the name of the class of claims that name none, empty if there is
// none. Two are an error: a cluster takes the newer one, and documents have no age.
func DefaultClass(classes []*storagev1.StorageClass) (string, error) {
	found := ""
	for _, class := range classes {
		switch {
		case class.Annotations[validation.AnnotationDefaultClass] != "true":
		case found != "":
			return "", fmt.Errorf("the StorageClasses %s and %s are both the default; remove the annotation %s from one of "+
				"them, or set spec.storageClassName",
				found, class.Name, validation.AnnotationDefaultClass)
		default:
			found = class.Name
		}
	}
	return found, nil
}

// named binds the volume that the claim names. As in a cluster, its labels do not
// matter.
func (c *chooser) named(name string) (*Binding, error) {
	i := slices.IndexFunc(c.Volumes, func(v *v1.PersistentVolume) bool { return v.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("spec.volumeName: PersistentVolume %q is in no manifest; add it to the manifests, or remove "+
			"the field", name)
	}
	volume := c.Volumes[i]
	fault := c.unusable(volume)
	if fault == "" {
		fault = c.unlike(volume)
	}
	if fault != "" {
		return nil, fmt.Errorf("spec.volumeName: PersistentVolume %s %s; change the claim or the volume, or remove the field",
			name, fault)
	}
	return bind(c.Claim, volume), nil
}

// smallest returns the volume that is reserved for the claim, or else the smallest that
// fits, the first by name of equal ones; nil if none does.
func (c *chooser) smallest(selector labels.Selector) *v1.PersistentVolume {
	var best *v1.PersistentVolume
	for _, volume := range c.Volumes {
		if c.unusable(volume) != "" {
			continue
		}
		if volume.Spec.ClaimRef != nil {
			return volume
		}
		if c.unlike(volume) != "" || !selector.Matches(labels.Set(volume.Labels)) {
			continue
		}
		if size := sizeOf(volume.Spec.Capacity); best == nil || size.Cmp(sizeOf(best.Spec.Capacity)) < 0 {
			best = volume
		}
	}
	return best
}

// unusable returns why a volume can never be that of the claim, as a phrase that follows
// its name; empty if it can.
func (c *chooser) unusable(volume *v1.PersistentVolume) string {
	for i := range c.Bound {
		if b := &c.Bound[i]; b.Volume.Name == volume.Name {
			return fmt.Sprintf("is bound to claim %s/%s", b.Namespace, b.Claim)
		}
	}
	if ref := volume.Spec.ClaimRef; ref != nil && (ref.Namespace != c.Claim.Namespace || ref.Name != c.Claim.Name) {
		return fmt.Sprintf("is reserved for claim %s/%s by spec.claimRef", ref.Namespace, ref.Name)
	}
	if other := c.namedBy(volume); other != nil {
		return fmt.Sprintf("is reserved for claim %s/%s, which names it in spec.volumeName", other.Namespace, other.Name)
	}
	if have, want := ModeOf(volume.Spec.VolumeMode), ModeOf(c.Claim.Spec.VolumeMode); have != want {
		return fmt.Sprintf("has volumeMode %s, not %s", have, want)
	}
	have, want := sizeOf(volume.Spec.Capacity), sizeOf(c.Claim.Spec.Resources.Requests)
	if have.Cmp(want) < 0 {
		return fmt.Sprintf("has capacity %s, less than %s", have.String(), want.String())
	}
	if a := volume.Spec.NodeAffinity; a != nil && a.Required != nil && !c.OnNode(a.Required) {
		return "is not on this node, as spec.nodeAffinity says"
	}
	return ""
}

// namedBy returns another claim that names a volume, which is reserved by that unless the volume or the claim itself
// says otherwise; nil without one. A cluster knows no such reservation, and binds the volume to the claim that comes
// first: on a node without one, that would depend on which pod starts first, and a claim that means a directory
// would get the disk of another one.
func (c *chooser) namedBy(volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	if volume.Spec.ClaimRef != nil || c.Claim.Spec.VolumeName == volume.Name {
		return nil
	}
	for _, other := range c.Claims {
		if other.Spec.VolumeName == volume.Name {
			return other
		}
	}
	return nil
}

// unlike is unusable for what a volume that is reserved for the claim need not have.
func (c *chooser) unlike(volume *v1.PersistentVolume) string {
	if volume.Spec.StorageClassName != c.class {
		return fmt.Sprintf("has class %q, not %q", volume.Spec.StorageClassName, c.class)
	}
	for _, mode := range c.Claim.Spec.AccessModes {
		if !slices.Contains(volume.Spec.AccessModes, mode) {
			return "does not have access mode " + string(mode)
		}
	}
	return ""
}

// unbound reports why no volume fits. class is the index of the class of the claim, -1 if
// no manifest declares it.
func (c *chooser) unbound(selector labels.Selector, class int) error {
	var faults []string
	for _, volume := range c.Volumes {
		fault := c.unusable(volume)
		if fault == "" {
			fault = c.unlike(volume)
		}
		if fault == "" && !selector.Matches(labels.Set(volume.Labels)) {
			fault = "does not match spec.selector"
		}
		if len(faults) == maxFaults {
			faults = append(faults, fmt.Sprintf("and %d more", len(c.Volumes)-maxFaults))
			break
		}
		faults = append(faults, volume.Name+" "+fault)
	}
	why := "no PersistentVolume is declared"
	if len(faults) > 0 {
		why = "no PersistentVolume fits: " + strings.Join(faults, ", ")
	}
	size := sizeOf(c.Claim.Spec.Resources.Requests)
	remedy := fmt.Sprintf("add a PersistentVolume of class %q with at least %s and access modes %v", c.class,
		size.String(), c.Claim.Spec.AccessModes)
	if IsBlock(c.Claim.Spec.VolumeMode) {
		remedy += ", volumeMode Block, and local.path of a block device"
	}
	if c.Claim.Spec.Selector != nil {
		remedy += ", whose labels match spec.selector"
	}
	switch {
	case IsBlock(c.Claim.Spec.VolumeMode): // no class provisions a device
	case c.class != "" && class < 0:
		why = fmt.Sprintf("StorageClass %q is in no manifest, and %s", c.class, why)
		remedy = fmt.Sprintf("add a StorageClass %s with provisioner %s, or %s, or remove spec.storageClassName", c.class,
			validation.ProvisionerDirectory, remedy)
	case class >= 0 && c.Classes[class].Provisioner == validation.ProvisionerDirectory:
		remedy += ", or remove spec.selector, so that the class provisions a volume"
	}
	return errors.New(why + "; " + remedy)
}

// overlap returns an error if the directory of a provisioned volume is inside or above that of
// another one: to delete one of them would delete the other one.
func (c *chooser) overlap(made *Binding) error {
	path := made.Volume.Spec.HostPath.Path
	for i := range c.Bound {
		b := &c.Bound[i]
		if !b.Provisioned {
			continue
		}
		other := b.Volume.Spec.HostPath.Path
		if path == other || strings.HasPrefix(path, other+"/") || strings.HasPrefix(other, path+"/") {
			return fmt.Errorf("the directory %s of StorageClass %s and %s of claim %s/%s contain each other; give the class a "+
				"path outside of those of other classes",
				path, c.class, other, b.Namespace, b.Claim)
		}
	}
	return nil
}

// sizeOf returns the storage of a list; it is 0 if the list has none.
func sizeOf(list v1.ResourceList) resource.Quantity {
	return list[v1.ResourceStorage]
}
