package cluster

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// claimFits reports whether a claim and its volume can be kept, and counts them if they can. A tenant writes the claim,
// and multiplies what an administrator or a driver wrote into the volume: each pod has both of its own.
func (o *Objects) claimFits(namespace string, c *boundClaim, claim *v1.PersistentVolumeClaim,
	volume *v1.PersistentVolume) bool {
	size := claimMemory(claim, volume)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.dropped {
		return true
	}
	if size > c.size && !o.space.fits(namespace, c.size, size) {
		return false
	}
	o.resizeClaim(namespace, c, size)
	return true
}

// claimMemory returns about how many bytes of memory a claim and its volume need.
func claimMemory(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) int {
	return memory(reflect.ValueOf(claim)) + memory(reflect.ValueOf(volume))
}

// resizeClaim sets what a claim needs in memory. The caller holds mu.
func (o *Objects) resizeClaim(namespace string, c *boundClaim, size int) {
	grown := size - c.size
	c.size = size
	o.space.resize(namespace, grown)
	if grown < 0 {
		o.retryRefused()
	}
}

// dropClaim ends a claim. The caller holds mu.
func (o *Objects) dropClaim(key claimKey, c *boundClaim) {
	c.stop()
	c.dropped = true
	o.resizeClaim(key.namespace, c, 0)
}

// storageOnly returns the entry of a map that is read: a claim may have others.
func storageOnly[V any](all map[v1.ResourceName]V) map[v1.ResourceName]V {
	value, ok := all[v1.ResourceStorage]
	if !ok {
		return nil
	}
	return map[v1.ResourceName]V{v1.ResourceStorage: value}
}

// reducedClaim returns what is read of a claim. The API server accepts a claim with the same access mode any number of
// times.
func reducedClaim(claim *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			ResourceVersion: claim.ResourceVersion},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: distinct(claim.Spec.AccessModes), VolumeMode: claim.Spec.VolumeMode,
			VolumeName: claim.Spec.VolumeName,
			Resources:  v1.VolumeResourceRequirements{Requests: storageOnly(claim.Spec.Resources.Requests)},
		},
		Status: v1.PersistentVolumeClaimStatus{
			Capacity: storageOnly(claim.Status.Capacity), AllocatedResources: storageOnly(claim.Status.AllocatedResources),
			AllocatedResourceStatuses: storageOnly(claim.Status.AllocatedResourceStatuses),
		},
	}
}

// distinct returns the access modes, each once.
func distinct(modes []v1.PersistentVolumeAccessMode) []v1.PersistentVolumeAccessMode {
	var each uniqueList[v1.PersistentVolumeAccessMode]
	for _, mode := range modes {
		each.add(mode)
	}
	return slices.Clip(each.items)
}

// reducedVolume returns what is read of a volume. Mount options may be in an annotation, which then
// replaces the field.
func reducedVolume(volume *v1.PersistentVolume) *v1.PersistentVolume {
	kept := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume.Name, UID: volume.UID}, Spec: volume.Spec}
	kept.Spec.AccessModes = distinct(volume.Spec.AccessModes)
	if options, ok := volume.Annotations[v1.MountOptionAnnotation]; ok {
		kept.Spec.MountOptions = strings.FieldsFunc(options, func(r rune) bool { return r == ',' })
	}
	if group, ok := volume.Annotations[podinfo.AnnotationVolumeGroup]; ok {
		kept.Annotations = map[string]string{podinfo.AnnotationVolumeGroup: group}
	}
	return kept
}
