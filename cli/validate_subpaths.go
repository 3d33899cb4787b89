package cli

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podstead/podstead/manifest"
)

// checkSubPaths finds subPaths that are no file of a volume which is made from declared ConfigMaps and Secrets: the
// container would wait, or get an empty directory where an object is optional.
func (v *validator) checkSubPaths() {
	for i, pod := range v.pods {
		volumes := map[string]*objectFiles{}
		for j := range pod.Spec.Volumes {
			if files, known := v.objectFiles(pod.Namespace, &pod.Spec.Volumes[j].VolumeSource); known {
				volumes[pod.Spec.Volumes[j].Name] = files
			}
		}
		check := func(list *field.Path, containers []v1.Container) {
			for j := range containers {
				for k, mount := range containers[j].VolumeMounts {
					files := volumes[mount.Name]
					if files == nil || files.has(mount.SubPath) {
						continue
					}
					v.faults = append(v.faults, manifest.Fault{
						Unit: v.owners[v.names[i]], Object: "Pod " + v.names[i], Warning: true,
						Path: list.Index(j).Child("volumeMounts").Index(k).Child("subPath").String(),
						Problem: fmt.Sprintf("%q is no file of volume %q, which is made from %s", mount.SubPath, mount.Name,
							strings.Join(files.objects, " and ")),
						Remedy: files.remedy(),
					})
				}
			}
		}
		check(field.NewPath("spec", "initContainers"), pod.Spec.InitContainers)
		check(field.NewPath("spec", "containers"), pod.Spec.Containers)
	}
}

// objectFiles are the files of a volume that is made from ConfigMaps and Secrets.
type objectFiles struct {
	// objects name the ConfigMaps and Secrets.
	objects []string
	paths   map[string]bool
	// optional: an object or a key may be missing. A missing subPath is then an empty directory.
	optional bool
	// secret: the keys of a Secret are among the paths. They are not printed.
	secret bool
}

// objectFiles returns the files of a volume, and whether they are known: the volume is made from ConfigMaps and
// Secrets, and all of them are declared.
func (v *validator) objectFiles(namespace string, volume *v1.VolumeSource) (*objectFiles, bool) {
	files := &objectFiles{paths: map[string]bool{}}
	add := func(kind, name string, items []v1.KeyToPath, optional *bool) bool {
		ref := manifest.ObjectRef{Kind: kind, Namespace: namespace, Name: name}
		d, known := v.objects[ref]
		if !known {
			return false
		}
		files.objects = append(files.objects, ref.String())
		files.secret = files.secret || kind == manifest.KindSecret && len(items) == 0
		canMiss := optional != nil && *optional
		files.optional = files.optional || canMiss
		keys := d.object.Keys()
		if len(items) == 0 {
			for _, key := range keys {
				files.paths[key] = true
			}
		}
		for _, item := range items {
			// A required key that is missing is reported as such.
			if !canMiss || slices.Contains(keys, item.Key) {
				files.paths[path.Clean(item.Path)] = true
			}
		}
		return true
	}
	switch {
	case volume.ConfigMap != nil:
		s := volume.ConfigMap
		return files, add(manifest.KindConfigMap, s.Name, s.Items, s.Optional)
	case volume.Secret != nil:
		s := volume.Secret
		return files, add(manifest.KindSecret, s.SecretName, s.Items, s.Optional)
	case volume.Projected != nil:
		for _, source := range volume.Projected.Sources {
			known := false
			switch {
			case source.ConfigMap != nil:
				s := source.ConfigMap
				known = add(manifest.KindConfigMap, s.Name, s.Items, s.Optional)
			case source.Secret != nil:
				s := source.Secret
				known = add(manifest.KindSecret, s.Name, s.Items, s.Optional)
			case source.DownwardAPI != nil:
				for _, item := range source.DownwardAPI.Items {
					files.paths[path.Clean(item.Path)] = true
				}
				known = true
			}
			if !known {
				return nil, false
			}
		}
		return files, len(files.objects) > 0
	}
	return nil, false
}

// has reports whether a subPath is one of the files, one of their directories, or the volume itself.
func (f *objectFiles) has(subPath string) bool {
	subPath = path.Clean(subPath)
	if subPath == "." {
		return true
	}
	for file := range f.paths {
		if file == subPath || strings.HasPrefix(file, subPath+"/") {
			return true
		}
	}
	return false
}

// remedy says what would be right, and what happens otherwise.
func (f *objectFiles) remedy() string {
	text := "write the name of a file of the volume, or add the key"
	if !f.secret && len(f.paths) > 0 {
		paths := slices.Sorted(maps.Keys(f.paths))
		text = "the volume has " + strings.Join(paths[:min(len(paths), 10)], ", ")
	}
	if f.optional {
		return text + "; the container gets an empty directory in its place"
	}
	return text + "; the container waits for it"
}
