package validation

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podVolumes validates spec.volumes. An invalid volume still counts as
// declared, so that its mounts are not reported as well.
func (v *validator) podVolumes(path *field.Path) {
	made := map[string]bool{}
	for i := range v.spec.Volumes {
		if volume := &v.spec.Volumes[i]; volume.Ephemeral != nil {
			made[v.meta.Name+"-"+volume.Name] = true
		}
	}
	for i := range v.spec.Volumes {
		volume, at := &v.spec.Volumes[i], path.Index(i)
		if v.requireSet(at.Child("name"), volume.Name, "a volume needs a name, which the containers' volumeMounts refer to") {
			v.dnsLabel(at.Child("name"), volume.Name)
			if v.volumes[volume.Name] != nil {
				v.duplicate(at.Child("name"), volume.Name, "the volumes of a pod need unique names")
			}
			v.volumes[volume.Name] = &volume.VolumeSource
		}
		v.volumeSource(at, volume)
		if claim := volume.PersistentVolumeClaim; claim != nil && v.meta.Name != "" && made[claim.ClaimName] {
			v.invalid(at.Child("persistentVolumeClaim", "claimName"), claim.ClaimName,
				"must not be the claim that an ephemeral volume of this pod creates; mount that volume instead")
		}
	}
}

// volumeType is one of the types of a volume.
type volumeType struct {
	// name is the name of the field.
	name    string
	present bool
	// check validates the fields of the type; nil if nothing in them can be
	// invalid.
	check func(path *field.Path)
}

// volumeSource validates that a volume has one type, and the fields of that
// type.
func (v *validator) volumeSource(path *field.Path, volume *v1.Volume) {
	kinds := append(v.localVolumes(volume), v.networkVolumes(volume)...)
	kinds = append(kinds, v.cloudVolumes(volume)...)
	first := ""
	for _, kind := range kinds {
		switch {
		case !kind.present:
		case first != "":
			v.forbidden(path.Child(kind.name),
				"a volume can have only one type, and "+first+" is set as well; remove one of them, or add a second volume")
		default:
			first = kind.name
			if kind.check != nil {
				kind.check(path.Child(kind.name))
			}
		}
	}
	if first == "" {
		v.required(path, "a volume needs a type, such as emptyDir or hostPath")
	}
}

// localVolumes returns the types that need only the node and the API.
func (v *validator) localVolumes(volume *v1.Volume) []volumeType {
	s := &volume.VolumeSource
	return []volumeType{
		{"emptyDir", s.EmptyDir != nil, func(path *field.Path) {
			if size := s.EmptyDir.SizeLimit; size != nil && size.Sign() < 0 {
				v.forbidden(path.Child("sizeLimit"), "must be 0 or more")
			}
		}},
		{"hostPath", s.HostPath != nil, func(path *field.Path) { v.hostPath(path, s.HostPath) }},
		{"secret", s.Secret != nil, func(path *field.Path) {
			v.requireSet(path.Child("secretName"), s.Secret.SecretName, "must be the name of the Secret")
			v.fileMode(path.Child("defaultMode"), s.Secret.DefaultMode)
			v.keyItems(path.Child("items"), s.Secret.Items, nil)
		}},
		{"configMap", s.ConfigMap != nil, func(path *field.Path) {
			v.requireSet(path.Child("name"), s.ConfigMap.Name, "must be the name of the ConfigMap")
			v.fileMode(path.Child("defaultMode"), s.ConfigMap.DefaultMode)
			v.keyItems(path.Child("items"), s.ConfigMap.Items, nil)
		}},
		{"downwardAPI", s.DownwardAPI != nil, func(path *field.Path) {
			v.fileMode(path.Child("defaultMode"), s.DownwardAPI.DefaultMode)
			v.downwardItems(path.Child("items"), s.DownwardAPI.Items, nil)
		}},
		{"projected", s.Projected != nil, func(path *field.Path) { v.projected(path, s.Projected) }},
		{"image", s.Image != nil, func(path *field.Path) {
			v.requireSet(path.Child("reference"), s.Image.Reference, "must be an image, such as registry.example.com/data:1.0")
			requiredOneOf(v, path.Child("pullPolicy"), s.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
		}},
		{"gitRepo", s.GitRepo != nil, func(path *field.Path) {
			v.requireSet(path.Child("repository"), s.GitRepo.Repository, "must be the URL of the repository")
			v.localPath(path.Child("directory"), s.GitRepo.Directory)
		}},
		{"persistentVolumeClaim", s.PersistentVolumeClaim != nil, func(path *field.Path) {
			v.requireSet(path.Child("claimName"), s.PersistentVolumeClaim.ClaimName, "must be the name of the claim")
		}},
		{"ephemeral", s.Ephemeral != nil, func(path *field.Path) { v.ephemeral(path, volume) }},
	}
}

func (v *validator) hostPath(path *field.Path, s *v1.HostPathVolumeSource) {
	if !v.requireSet(path.Child("path"), s.Path, "must be the directory or file on this host") {
		return
	}
	v.noParentRefs(path.Child("path"), s.Path)
	optionalOneOf(v, path.Child("type"), s.Type, v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory,
		v1.HostPathFileOrCreate, v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)
}

// fileSet contains the files that the sources of one projected volume create.
type fileSet map[string]bool

// addFile reports a file that another source creates already.
func (v *validator) addFile(path *field.Path, files fileSet, name string) {
	if files == nil {
		return
	}
	if files[name] {
		v.invalid(path, name, "must not be a path that another source of this volume writes")
	}
	files[name] = true
}

// keyItems validates which keys of a ConfigMap or Secret become which files.
func (v *validator) keyItems(path *field.Path, items []v1.KeyToPath, files fileSet) {
	for i, item := range items {
		at := path.Index(i)
		v.requireSet(at.Child("key"), item.Key, "must be a key of the object's data")
		if v.requireSet(at.Child("path"), item.Path, "must be the file's path in the volume") {
			v.fileName(at.Child("path"), item.Path)
			v.addFile(at.Child("path"), files, item.Path)
		}
		v.fileMode(at.Child("mode"), item.Mode)
	}
}

func (v *validator) downwardItems(path *field.Path, items []v1.DownwardAPIVolumeFile, files fileSet) {
	for i, item := range items {
		at := path.Index(i)
		if v.requireSet(at.Child("path"), item.Path, "must be the file's path in the volume") {
			v.fileName(at.Child("path"), item.Path)
			v.addFile(at.Child("path"), files, item.Path)
		}
		v.fileMode(at.Child("mode"), item.Mode)
		switch {
		case item.FieldRef != nil && item.ResourceFieldRef != nil:
			v.invalid(at, item.Path, "must have one of fieldRef, resourceFieldRef, not both")
			v.fieldRef(at.Child("fieldRef"), item.FieldRef, fileFields)
		case item.FieldRef != nil:
			v.fieldRef(at.Child("fieldRef"), item.FieldRef, fileFields)
		case item.ResourceFieldRef != nil:
			ref := at.Child("resourceFieldRef")
			v.requireSet(ref.Child("containerName"), item.ResourceFieldRef.ContainerName,
				"must be the container whose resources the file shows")
			v.resourceFieldRef(ref, item.ResourceFieldRef)
		default:
			v.required(at, "must have one of fieldRef, resourceFieldRef")
		}
	}
}

// ephemeral validates a claim that is created for this pod only. The claim is
// named after the pod and the volume.
func (v *validator) ephemeral(path *field.Path, volume *v1.Volume) {
	if volume.Ephemeral.VolumeClaimTemplate == nil {
		v.required(path.Child("volumeClaimTemplate"), "must be the claim to create, with accessModes and resources")
	} else {
		v.claimTemplate(path.Child("volumeClaimTemplate"), volume.Ephemeral.VolumeClaimTemplate)
	}
	if v.meta.Name != "" && volume.Name != "" {
		before := len(v.errs)
		v.dnsSubdomain(field.NewPath("spec", "volumes").Index(v.volumeIndex(volume)).Child("name"),
			v.meta.Name+"-"+volume.Name)
		for _, err := range v.errs[before:] {
			err.Detail = "joined to the pod's name is not a valid claim name: " + err.Detail
		}
	}
}

// volumeIndex returns the index of a volume, since names may be duplicates.
func (v *validator) volumeIndex(volume *v1.Volume) int {
	for i := range v.spec.Volumes {
		if &v.spec.Volumes[i] == volume {
			return i
		}
	}
	return -1
}
