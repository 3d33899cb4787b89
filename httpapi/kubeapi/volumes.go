package kubeapi

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ClaimVolume is the volume of a PersistentVolumeClaim: a PersistentVolume, or a directory of its
// own. A claim gets it when the first pod uses the claim; it outlives the claim.
type ClaimVolume struct {
	Namespace, Name string
	// Path is the directory on the host; empty for a volume of a server.
	Path string
	// Created is the creation time of a directory; zero if it is not known.
	Created time.Time
	// Volume is the PersistentVolume as it was when it was bound; nil for a directory of its own.
	Volume *v1.PersistentVolume
}

// volumeName returns the name of the PersistentVolume that is shown for a claim that is a directory
// of its own. A namespace has no dot, so that no other claim has the same.
func volumeName(namespace, name string) string { return namespace + "." + name }

// volume returns the PersistentVolume of a claim.
func (c *ClaimVolume) volume() *v1.PersistentVolume {
	if c.Volume != nil {
		shown := *c.Volume
		return &shown
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(c.Namespace, c.Name), CreationTimestamp: timeOf(c.Created)},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: c.Path}},
			ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
				Namespace: c.Namespace, Name: c.Name},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		},
	}
}

// ClaimSource serves the claims that manifests declare with what is known of their volumes.
func ClaimSource(list func() []*v1.PersistentVolumeClaim, volumes func() []ClaimVolume, subscribe Subscribe) Source {
	declared := ObjectSource(list, subscribe)
	return Source{Subscribe: subscribe, List: func() []Object {
		bound := map[types.NamespacedName]*ClaimVolume{}
		for _, v := range volumes() {
			bound[types.NamespacedName{Namespace: v.Namespace, Name: v.Name}] = &v
		}
		claims := declared.List()
		for _, o := range claims {
			c := o.(*v1.PersistentVolumeClaim) // a copy, whose status is not shared
			c.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
			v := bound[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}]
			if v == nil {
				continue
			}
			volume := v.volume()
			c.Spec.VolumeName = volume.Name
			if c.CreationTimestamp.IsZero() {
				// A claim without a directory of its own has the time of its binding.
				c.CreationTimestamp = volume.CreationTimestamp
			}
			c.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: accessModes(c), Capacity: capacityOf(c)}
			if v.Volume != nil {
				c.Status.AccessModes, c.Status.Capacity = volume.Spec.AccessModes, volume.Spec.Capacity
				c.Spec.StorageClassName = &volume.Spec.StorageClassName
			}
		}
		return claims
	}}
}

// boundField returns the field of the spec that binding sets, and its value as decoded JSON; nil
// if the object is not bound.
func boundField(object Object) (field string, value any) {
	switch o := object.(type) {
	case *v1.PersistentVolumeClaim:
		if o.Spec.VolumeName != "" {
			return "volumeName", o.Spec.VolumeName
		}
	case *v1.PersistentVolume:
		if ref := o.Spec.ClaimRef; ref != nil {
			return "claimRef", map[string]any{"kind": ref.Kind, "apiVersion": ref.APIVersion, "namespace": ref.Namespace,
				"name": ref.Name}
		}
	}
	return "", nil
}

// VolumeSource serves the PersistentVolumes that manifests declare, and those of claims.
func VolumeSource(declared func() []*v1.PersistentVolume, list func() []*v1.PersistentVolumeClaim,
	volumes func() []ClaimVolume, subscribe Subscribe) Source {
	documents := ObjectSource(declared, subscribe)
	return Source{Subscribe: subscribe, List: func() []Object {
		claims := map[types.NamespacedName]*v1.PersistentVolumeClaim{}
		for _, c := range list() {
			claims[types.NamespacedName{Namespace: c.Namespace, Name: c.Name}] = c
		}
		all := documents.List()
		byName := map[string]*v1.PersistentVolume{}
		for _, o := range all {
			v := o.(*v1.PersistentVolume) // a copy, whose status is not shared
			v.Status.Phase = v1.VolumeAvailable
			byName[v.Name] = v
		}
		for _, bound := range volumes() {
			v := bound.volume()
			if known := byName[v.Name]; known == nil {
				v.UID = types.UID("persistentvolume-" + v.Name)
				byName[v.Name], all = v, append(all, v)
			} else if bound.Volume == nil {
				continue // a directory of its own, whose name is that of a declared volume
			} else {
				known.Spec.ClaimRef = v.Spec.ClaimRef
				v = known
			}
			v.Status.Phase = v1.VolumeReleased
			if c := claims[types.NamespacedName{Namespace: bound.Namespace, Name: bound.Name}]; c != nil {
				v.Status.Phase = v1.VolumeBound
				if bound.Volume == nil {
					v.Spec.AccessModes, v.Spec.Capacity, v.Spec.StorageClassName = accessModes(c), capacityOf(c),
						className(c.Spec.StorageClassName)
				}
			}
		}
		return all
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

// capacityOf returns the requested capacity of a claim. A quota may enforce it.
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
		column("Status", "Bound to a volume, or Pending until the first pod uses the claim."),
		column("Volume", "Name of the PersistentVolume."),
		column("Capacity", "Requested capacity, which is enforced where the file system has project quotas."),
		column("Access Modes", "Access modes of the claim."),
		column("StorageClass", "Storage class of the claim."),
		column("Age", "Time since the directory was created."),
	}
	volumeColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Capacity", "Capacity, which is enforced where the file system has project quotas."),
		column("Access Modes", "Access modes of the volume."),
		column("Reclaim Policy", "Retain: the data stays when the claim is removed; Delete: it is deleted."),
		column("Status", "Available, Bound, or Released if no manifest declares the claim any more."),
		column("Claim", "Claim of the volume."),
		column("StorageClass", "Storage class of the volume."),
		column("Age", "Time since the directory was created."),
		wide("Path", "Directory on the host, or on the server."),
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
	capacity := c.Status.Capacity
	if capacity == nil {
		capacity = c.Spec.Resources.Requests
	}
	return []any{
		c.Name, orNone(string(c.Status.Phase)), orNone(c.Spec.VolumeName), storage(capacity), modesText(c.Spec.AccessModes),
		orNone(className(c.Spec.StorageClassName)), since(c.CreationTimestamp),
	}
}

func volumeRow(o Object) []any {
	v := o.(*v1.PersistentVolume)
	claim := ""
	if ref := v.Spec.ClaimRef; ref != nil {
		claim = ref.Namespace + "/" + ref.Name
	}
	return []any{
		v.Name, storage(v.Spec.Capacity), modesText(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy),
		string(v.Status.Phase),
		claim, orNone(v.Spec.StorageClassName), since(v.CreationTimestamp), sourcePath(&v.Spec.PersistentVolumeSource),
	}
}

// sourcePath returns where the content of a volume is.
func sourcePath(s *v1.PersistentVolumeSource) string {
	switch {
	case s.HostPath != nil:
		return s.HostPath.Path
	case s.Local != nil:
		return s.Local.Path
	case s.NFS != nil:
		return s.NFS.Server + ":" + s.NFS.Path
	case s.CSI != nil:
		return s.CSI.Driver + ":" + s.CSI.VolumeHandle
	}
	return none
}

var storageClassColumns = []metav1.TableColumnDefinition{
	nameColumn(),
	column("Provisioner", "What makes the volumes of the class."),
	column("ReclaimPolicy", "Retain: the data stays when the claim is removed; Delete: it is deleted."),
	column("VolumeBindingMode", "When claims are bound: always when a pod first uses one."),
	{Name: "AllowVolumeExpansion", Type: "boolean",
		Description: "Whether the class has the field; a claim can become larger without it."},
	column("Age", "Always unknown: a manifest has no creation time."),
}

func storageClassRow(o Object) []any {
	c := o.(*storagev1.StorageClass)
	name, policy, mode := c.Name, v1.PersistentVolumeReclaimRetain, storagev1.VolumeBindingWaitForFirstConsumer
	if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" {
		name += " (default)"
	}
	if c.ReclaimPolicy != nil {
		policy = *c.ReclaimPolicy
	}
	if c.VolumeBindingMode != nil {
		mode = *c.VolumeBindingMode
	}
	return []any{name, c.Provisioner, string(policy), string(mode), c.AllowVolumeExpansion != nil &&
		*c.AllowVolumeExpansion, since(c.CreationTimestamp)}
}
