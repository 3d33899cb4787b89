package validation

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Provisioners of a StorageClass.
const (
	// ProvisionerDirectory makes a directory below the parameter path for each claim.
	ProvisionerDirectory = "podstead.io/directory"
	// ProvisionerNone makes nothing: claims of the class bind to PersistentVolumes that
	// manifests declare.
	ProvisionerNone = "kubernetes.io/no-provisioner"
)

// Parameters of a StorageClass with ProvisionerDirectory.
const (
	// ParameterPath is the directory that holds those of the claims.
	ParameterPath = "path"
	// ParameterMountPoint is what must be mounted before anything is written to the path;
	// absent is any mount point other than the root directory.
	ParameterMountPoint = "mountPoint"
)

// AnnotationDefaultClass marks the StorageClass of claims that name none.
const AnnotationDefaultClass = "storageclass.kubernetes.io/is-default-class"

func setVolumeDefaults(volume *v1.PersistentVolume) {
	setDefault(&volume.Spec.PersistentVolumeReclaimPolicy, v1.PersistentVolumeReclaimRetain)
	setDefaultPtr(&volume.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	if source := volume.Spec.HostPath; source != nil {
		setDefaultPtr(&source.Type, v1.HostPathUnset)
	}
}

// persistentVolume validates a volume as the API server does, and refuses the types
// that this node cannot mount.
func (v *validator) persistentVolume(volume *v1.PersistentVolume) {
	at, spec := field.NewPath("spec"), &volume.Spec
	v.accessModes(at.Child("accessModes"), spec.AccessModes)
	capacity := at.Child("capacity")
	if size, ok := spec.Capacity[v1.ResourceStorage]; !ok {
		v.required(capacity.Key(string(v1.ResourceStorage)), "must be the size of the volume, such as 1Gi")
	} else if size.Sign() <= 0 {
		v.invalid(capacity.Key(string(v1.ResourceStorage)), size.String(), "must be more than 0")
	}
	for name := range sortedMap(spec.Capacity) {
		if name != v1.ResourceStorage {
			v.forbidden(capacity.Key(string(name)), "a volume has only the capacity storage; remove it")
		}
	}
	oneOf(v, at.Child("persistentVolumeReclaimPolicy"), spec.PersistentVolumeReclaimPolicy,
		v1.PersistentVolumeReclaimRetain, v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeReclaimRecycle)
	optionalOneOf(v, at.Child("volumeMode"), spec.VolumeMode, v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock)
	if spec.VolumeMode != nil && *spec.VolumeMode == v1.PersistentVolumeBlock && spec.Local == nil && spec.CSI == nil {
		v.forbidden(at.Child("volumeMode"), "only a local or csi volume can be a block device here; use local with the "+
			"path of the device, or remove the field")
	}
	if spec.StorageClassName != "" {
		v.dnsSubdomain(at.Child("storageClassName"), spec.StorageClassName)
	}
	v.volumeSourceOf(at, volume)
	v.volumeAffinity(at.Child("nodeAffinity"), spec)
	if ref := spec.ClaimRef; ref != nil {
		v.requireSet(at.Child("claimRef", "name"), ref.Name, "must be the name of the claim for which the volume is reserved")
		v.requireSet(at.Child("claimRef", "namespace"), ref.Namespace,
			"must be the namespace of the claim for which the volume is reserved")
	}
}

// accessModes validates the access modes of a claim or a volume.
func (v *validator) accessModes(at *field.Path, modes []v1.PersistentVolumeAccessMode) {
	known := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod}
	if len(modes) == 0 {
		v.required(at, "must have at least one of "+quotedList(known))
	}
	alone, others := false, false
	for _, mode := range modes {
		oneOf(v, at, mode, known...)
		alone = alone || mode == v1.ReadWriteOncePod
		others = others || mode != v1.ReadWriteOncePod && slices.Contains(known, mode)
	}
	if alone && others {
		v.forbidden(at, "ReadWriteOncePod cannot be combined with other modes")
	}
}

// volumeSourceOf validates the type of a volume.
func (v *validator) volumeSourceOf(at *field.Path, volume *v1.PersistentVolume) {
	source := &volume.Spec.PersistentVolumeSource
	found := 0
	value := reflect.ValueOf(source).Elem()
	for i := range value.NumField() {
		if value.Field(i).IsNil() {
			continue
		}
		name := jsonName(value.Type().Field(i))
		if found++; found > 1 {
			v.forbidden(at.Child(name), "a volume has one type; remove this one or the other")
			continue
		}
		switch name {
		case "hostPath":
			v.hostPath(at.Child(name), source.HostPath)
			if !path.IsAbs(source.HostPath.Path) && source.HostPath.Path != "" {
				v.invalid(at.Child(name, "path"), source.HostPath.Path, "must be an absolute path")
			}
		case "local":
			v.localVolume(at.Child(name), source.Local)
		case "nfs":
			v.nfs(at.Child(name), source.NFS)
		case "csi":
			v.csiVolume(at.Child(name), source.CSI)
		default:
			v.forbidden(at.Child(name), volumeTypeFault(name))
		}
	}
	if found == 0 {
		v.required(at, "must have one of csi, hostPath, local, nfs")
	}
}

// csiVolume validates a volume of a CSI driver.
func (v *validator) csiVolume(at *field.Path, source *v1.CSIPersistentVolumeSource) {
	v.csiDriver(at.Child("driver"), source.Driver)
	v.requireSet(at.Child("volumeHandle"), source.VolumeHandle, "must be the ID that the driver has given to the volume")
	for name, ref := range sortedMap(map[string]*v1.SecretReference{
		"controllerPublishSecretRef": source.ControllerPublishSecretRef,
		"controllerExpandSecretRef":  source.ControllerExpandSecretRef,
		"nodeStageSecretRef":         source.NodeStageSecretRef, "nodePublishSecretRef": source.NodePublishSecretRef,
		"nodeExpandSecretRef": source.NodeExpandSecretRef,
	}) {
		if ref == nil {
			continue
		}
		v.requireSet(at.Child(name, "name"), ref.Name, "must be the name of the Secret")
		v.requireSet(at.Child(name, "namespace"), ref.Namespace, "must be the namespace of the Secret")
	}
}

func (v *validator) localVolume(at *field.Path, source *v1.LocalVolumeSource) {
	if !v.requireSet(at.Child("path"), source.Path,
		"must be a directory on this host, or a block device with volumeMode Block") {
		return
	}
	v.noParentRefs(at.Child("path"), source.Path)
	if !path.IsAbs(source.Path) {
		v.invalid(at.Child("path"), source.Path, "must be an absolute path")
	}
}

// volumeAffinity validates on which nodes a volume is. As in a cluster, a local volume
// must say so.
func (v *validator) volumeAffinity(at *field.Path, spec *v1.PersistentVolumeSpec) {
	affinity := spec.NodeAffinity
	switch {
	case affinity == nil && spec.Local != nil:
		v.required(at, "a local volume must name its node, with a required term such as kubernetes.io/hostname In [NODE]; "+
			"or use hostPath")
	case affinity == nil:
	case affinity.Required == nil:
		v.required(at.Child("required"), "must be the terms that the labels of the node must match")
	default:
		list := at.Child("required", "nodeSelectorTerms")
		if len(affinity.Required.NodeSelectorTerms) == 0 {
			v.required(list, "must have at least one term")
		}
		for i := range affinity.Required.NodeSelectorTerms {
			v.nodeTerm(list.Index(i), &affinity.Required.NodeSelectorTerms[i], true)
		}
	}
}

// storageClass validates a class, and refuses provisioners and parameters that have no
// meaning here.
func (v *validator) storageClass(class *storagev1.StorageClass) {
	at := field.NewPath("parameters")
	if v.requireSet(field.NewPath("provisioner"), class.Provisioner,
		"must be "+ProvisionerDirectory+" or "+ProvisionerNone) {
		switch class.Provisioner {
		case ProvisionerDirectory:
			v.directoryParameters(at, class.Parameters)
		case ProvisionerNone:
			for name := range sortedMap(class.Parameters) {
				v.forbidden(at.Key(name), "the provisioner "+ProvisionerNone+" has no parameters; remove it")
			}
		default:
			v.forbidden(field.NewPath("provisioner"),
				Quote(class.Provisioner)+" is a storage driver that this node does not have; use "+
					ProvisionerDirectory+" with the parameter path, or "+ProvisionerNone+" with PersistentVolumes of this class")
		}
	}
	optionalOneOf(v, field.NewPath("reclaimPolicy"), class.ReclaimPolicy, v1.PersistentVolumeReclaimRetain,
		v1.PersistentVolumeReclaimDelete)
	optionalOneOf(v, field.NewPath("volumeBindingMode"), class.VolumeBindingMode, storagev1.VolumeBindingImmediate,
		storagev1.VolumeBindingWaitForFirstConsumer)
}

func (v *validator) directoryParameters(at *field.Path, parameters map[string]string) {
	root := parameters[ParameterPath]
	if v.requireSet(at.Key(ParameterPath), root,
		"must be the directory that holds the directories of the claims, such as /mnt/ssd/volumes") {
		v.cleanPath(at.Key(ParameterPath), root)
	}
	if point, ok := parameters[ParameterMountPoint]; ok {
		v.cleanPath(at.Key(ParameterMountPoint), point)
		if point != "/" && root != point && !strings.HasPrefix(root, point+"/") {
			v.invalid(at.Key(ParameterMountPoint), point, "must be the path or a directory above it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if name != ParameterPath && name != ParameterMountPoint {
			v.forbidden(at.Key(name), "is unknown to the provisioner "+ProvisionerDirectory+
				", whose parameters are path and mountPoint; remove it")
		}
	}
}

// cleanPath requires an absolute path without empty parts, "." and "..".
func (v *validator) cleanPath(at *field.Path, value string) {
	if !path.IsAbs(value) || path.Clean(value) != value {
		v.invalid(at, value, "must be an absolute path without a slash at its end and without . and ..")
	}
}

// volumeWarnings returns the fields of a volume that have no effect.
func volumeWarnings(spec *v1.PersistentVolumeSpec) (warnings []FieldFault) {
	if policy := spec.PersistentVolumeReclaimPolicy; policy == v1.PersistentVolumeReclaimDelete ||
		policy == v1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, FieldFault{Path: "spec.persistentVolumeReclaimPolicy", Warning: true,
			Problem: string(policy) + " has no effect: podstead never deletes what a declared volume contains",
			Remedy:  "use Retain"})
	}
	const noEffect, remove = "has no effect", "remove the field"
	const noFileSystem = ": a volume with volumeMode Block has no file system"
	warnings = append(warnings, fieldsWithoutEffect("spec.", []setField{
		{len(spec.MountOptions) > 0 && spec.NFS == nil && spec.CSI == nil, "mountOptions",
			noEffect + ": podstead mounts only NFS volumes and those of CSI drivers",
			"remove the field, and mount the file system with these options on the host"},
		{len(spec.MountOptions) > 0 && deviceOfDriver(spec), "mountOptions", noEffect + noFileSystem, remove},
		{deviceOfDriver(spec) && spec.CSI.FSType != "", "csi.fsType", noEffect + noFileSystem, remove},
		{spec.VolumeAttributesClassName != nil && *spec.VolumeAttributesClassName != "", "volumeAttributesClassName",
			noEffect, remove},
		{spec.CSI != nil && spec.CSI.ControllerPublishSecretRef != nil, "csi.controllerPublishSecretRef",
			noEffect + ": no controller attaches volumes", remove},
		{spec.CSI != nil && spec.CSI.ControllerExpandSecretRef != nil, "csi.controllerExpandSecretRef",
			noEffect + ": no controller expands volumes", remove},
		{spec.Local != nil && spec.Local.FSType != nil, "local.fsType",
			noEffect + ": podstead neither formats nor mounts a device", remove},
	})...)
	return warnings
}

// deviceOfDriver reports whether a volume is a block device of a CSI driver.
func deviceOfDriver(spec *v1.PersistentVolumeSpec) bool {
	return spec.CSI != nil && spec.VolumeMode != nil && *spec.VolumeMode == v1.PersistentVolumeBlock
}

// classWarnings returns the fields of a StorageClass that have no effect.
func classWarnings(class *storagev1.StorageClass) []FieldFault {
	const noEffect, remove = "has no effect", "remove the field"
	return fieldsWithoutEffect("", []setField{
		{class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingImmediate, "volumeBindingMode",
			"Immediate " + noEffect + ": a claim is bound when a pod first uses it", "use WaitForFirstConsumer"},
		{class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion, "allowVolumeExpansion",
			noEffect + ": a claim can always request more", remove},
		{len(class.MountOptions) > 0, "mountOptions", noEffect + ": podstead mounts nothing for a directory", remove},
		{len(class.AllowedTopologies) > 0, "allowedTopologies", noEffect + ": the class is for this node", remove},
	})
}

// setField is a field that has no effect if it is set.
type setField struct {
	set                   bool
	name, problem, remedy string
}

func fieldsWithoutEffect(prefix string, list []setField) (warnings []FieldFault) {
	for _, f := range list {
		if f.set {
			warnings = append(warnings, FieldFault{Path: prefix + f.name, Warning: true, Problem: f.problem, Remedy: f.remedy})
		}
	}
	return warnings
}
