package kubeapi

import (
	"maps"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimDirectory is the directory of a PersistentVolumeClaim. It is created when the first pod
// uses the claim, and outlives the claim.
type ClaimDirectory struct {
	Namespace, Name string
	// Path is the directory on the host.
	Path string
	// Created is its creation time; zero if the filesystem does not record it.
	Created time.Time
}

// volumeName returns the name of the PersistentVolume of a claim. A namespace has no dot, so that
// no other claim has the same.
func volumeName(namespace, name string) string { return namespace + "." + name }

// ClaimSource serves the claims that manifests declare with what is known of their directories.
func ClaimSource(list func() []*v1.PersistentVolumeClaim, directories func() []ClaimDirectory, subscribe Subscribe) Source {
	declared := ObjectSource(list, subscribe)
	return Source{Subscribe: subscribe, List: func() []Object {
		created := map[string]ClaimDirectory{}
		for _, d := range directories() {
			created[volumeName(d.Namespace, d.Name)] = d
		}
		claims := declared.List()
		for _, o := range claims {
			c := o.(*v1.PersistentVolumeClaim) // a copy, whose status is not shared
			c.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
			d, ok := created[volumeName(c.Namespace, c.Name)]
			if !ok {
				continue
			}
			c.Spec.VolumeName = volumeName(c.Namespace, c.Name)
			if c.CreationTimestamp.IsZero() {
				c.CreationTimestamp = timeOf(d.Created)
			}
			c.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: accessModes(c), Capacity: capacityOf(c)}
		}
		return claims
	}}
}

// setVolumeName adds the name of its volume to a claim that its manifest declares.
func setVolumeName(shown map[string]any, object Object) {
	c, ok := object.(*v1.PersistentVolumeClaim)
	spec, _ := shown["spec"].(map[string]any)
	if !ok || spec == nil || spec["volumeName"] != nil || c.Spec.VolumeName == "" {
		return
	}
	spec = maps.Clone(spec)
	spec["volumeName"] = c.Spec.VolumeName
	shown["spec"] = spec
}

// dropVolumeName removes what setVolumeName has added from a claim that a client sends, so that it
// does not get into the manifest.
func dropVolumeName(object, declared map[string]any, shown Object) {
	c, ok := shown.(*v1.PersistentVolumeClaim)
	spec, _ := object["spec"].(map[string]any)
	known, _ := declared["spec"].(map[string]any)
	if !ok || spec == nil || spec["volumeName"] != c.Spec.VolumeName || known["volumeName"] != nil {
		return
	}
	spec = maps.Clone(spec)
	delete(spec, "volumeName")
	object["spec"] = spec
}

// VolumeSource serves the directories of claims as PersistentVolumes.
func VolumeSource(list func() []*v1.PersistentVolumeClaim, directories func() []ClaimDirectory, subscribe Subscribe) Source {
	return Source{Subscribe: subscribe, List: func() []Object {
		claims := map[string]*v1.PersistentVolumeClaim{}
		for _, c := range list() {
			claims[volumeName(c.Namespace, c.Name)] = c
		}
		var volumes []Object
		for _, d := range directories() {
			name := volumeName(d.Namespace, d.Name)
			v := &v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("persistentvolume-" + name), CreationTimestamp: timeOf(d.Created)},
				Spec: v1.PersistentVolumeSpec{
					PersistentVolumeSource:        v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: d.Path}},
					ClaimRef:                      &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: d.Namespace, Name: d.Name},
					PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
				},
				Status: v1.PersistentVolumeStatus{Phase: v1.VolumeReleased},
			}
			if c := claims[name]; c != nil {
				v.Status.Phase, v.Spec.AccessModes, v.Spec.Capacity = v1.VolumeBound, accessModes(c), capacityOf(c)
				v.Spec.StorageClassName = className(c.Spec.StorageClassName)
			}
			volumes = append(volumes, v)
		}
		return volumes
	}}
}

func timeOf(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.UTC().Truncate(time.Second))
}

// accessModes returns the access modes of a claim; that of one without is the default.
func accessModes(c *v1.PersistentVolumeClaim) []v1.PersistentVolumeAccessMode {
	if len(c.Spec.AccessModes) == 0 {
		return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	}
	return c.Spec.AccessModes
}

// capacityOf returns the requested capacity of a claim, which is not enforced.
func capacityOf(c *v1.PersistentVolumeClaim) v1.ResourceList {
	requested, ok := c.Spec.Resources.Requests[v1.ResourceStorage]
	if !ok {
		return nil
	}
	return v1.ResourceList{v1.ResourceStorage: requested}
}

func className(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

var (
	claimColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "Bound to a directory of this host, or Pending until the first pod uses the claim."),
		column("Volume", "Name of the PersistentVolume."),
		column("Capacity", "Requested capacity, which is not enforced."),
		column("Access Modes", "Access modes of the claim."),
		column("StorageClass", "Storage class of the claim."),
		column("Age", "Time since the directory was created."),
	}
	volumeColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Capacity", "Requested capacity, which is not enforced."),
		column("Access Modes", "Access modes of the claim."),
		column("Reclaim Policy", "Always Retain: the data stays when the claim is deleted."),
		column("Status", "Bound, or Released if no manifest declares the claim any more."),
		column("Claim", "Claim of the volume."),
		column("StorageClass", "Storage class of the claim."),
		column("Age", "Time since the directory was created."),
		wide("Path", "Directory on the host."),
	}
)

// modeNames are the short names of access modes.
var modeNames = map[v1.PersistentVolumeAccessMode]string{
	v1.ReadWriteOnce: "RWO", v1.ReadOnlyMany: "ROX", v1.ReadWriteMany: "RWX", v1.ReadWriteOncePod: "RWOP",
}

func modesText(modes []v1.PersistentVolumeAccessMode) string {
	var names []string
	for _, m := range modes {
		if name := modeNames[m]; name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

func storage(list v1.ResourceList) string {
	size, ok := list[v1.ResourceStorage]
	if !ok {
		size = quantity.Quantity{}
	}
	return size.String()
}

func claimRow(o Object) []any {
	c := o.(*v1.PersistentVolumeClaim)
	return []any{
		c.Name, orNone(string(c.Status.Phase)), orNone(c.Spec.VolumeName), storage(c.Spec.Resources.Requests), modesText(c.Spec.AccessModes),
		orNone(className(c.Spec.StorageClassName)), since(c.CreationTimestamp),
	}
}

func volumeRow(o Object) []any {
	v := o.(*v1.PersistentVolume)
	return []any{
		v.Name, storage(v.Spec.Capacity), modesText(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), string(v.Status.Phase),
		v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name, orNone(v.Spec.StorageClassName), since(v.CreationTimestamp), v.Spec.HostPath.Path,
	}
}
