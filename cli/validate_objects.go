package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// checkReferences finds objects that pods require and that none of the given files declares:
// the pods would wait for them. Another source of the daemon, such as a URL, may declare them.
func (v *validator) checkReferences() {
	for i, pod := range v.pods {
		for _, ref := range manifest.RequiredReferences(pod) {
			if _, declared := v.objects[ref]; declared {
				continue
			}
			v.faults = append(v.faults, manifest.Fault{
				Unit: v.owners[v.names[i]], Object: "Pod " + v.names[i], Warning: true,
				Problem: fmt.Sprintf("requires %s, which no given manifest declares", ref),
				Remedy:  "correct the name, add the object, or mark the reference as optional; the pod waits for it",
			})
		}
	}
}

// checkStorageClasses finds claims of a class of which the given files declare neither the
// StorageClass nor a PersistentVolume: they would not be bound. A claim that is bound already, or has
// a directory, keeps it, and another source of the daemon may declare the class.
func (v *validator) checkStorageClasses() {
	known := map[string]bool{"": true}
	for _, d := range v.objects {
		if class := d.object.StorageClass; class != nil {
			known[class.Name] = true
		}
		if volume := d.object.Volume; volume != nil {
			known[volume.Spec.StorageClassName] = true
		}
	}
	var faults manifest.Faults
	for ref, d := range v.objects {
		if claim := d.object.Claim; claim != nil && claim.Spec.StorageClassName != nil &&
			!known[*claim.Spec.StorageClassName] {
			faults = append(faults, manifest.Fault{
				Unit: d.file, Object: ref.String(), Path: "spec.storageClassName", Warning: true,
				Problem: fmt.Sprintf("no given manifest declares StorageClass %s, or a PersistentVolume of it",
					*claim.Spec.StorageClassName),
				Remedy: "correct the name, or add one; pods wait for the claim unless it is bound already",
			})
		}
	}
	slices.SortFunc(faults, func(a, b manifest.Fault) int {
		return cmp.Or(cmp.Compare(a.Unit, b.Unit), cmp.Compare(a.Object, b.Object))
	})
	v.faults = append(v.faults, faults...)
}

// checkHostPorts finds pods that cannot run at the same time, since both need one port of the
// host: the later one would wait. Those of one file may be meant to follow each other, too, so
// that this is a warning.
func (v *validator) checkHostPorts() {
	type holder struct {
		port podinfo.HostPort
		pod  int
	}
	held := map[int32][]holder{}
	for i, pod := range v.pods {
		ports := podinfo.HostPorts(pod)
		for _, port := range ports {
			at := slices.IndexFunc(held[port.Number], func(h holder) bool { return h.pod != i && port.Conflicts(h.port) })
			if at < 0 {
				continue
			}
			other := v.names[held[port.Number][at].pod]
			v.faults = append(v.faults, manifest.Fault{
				Unit: v.owners[v.names[i]], Object: "Pod " + v.names[i], Warning: true,
				Problem: fmt.Sprintf("needs port %d of the host (%s on %s), which pod %s in %s needs too", port.Number,
					port.Protocol, port.IP, other, v.owners[other]),
				Remedy: "use another hostPort or hostIP; only one of the two pods runs at a time",
			})
		}
		for _, port := range ports {
			held[port.Number] = append(held[port.Number], holder{port, i})
		}
	}
}

// checkKeys finds keys that pods require of declared ConfigMaps and Secrets which do not have
// them: the pods would wait.
func (v *validator) checkKeys() {
	for i, pod := range v.pods {
		for _, ref := range manifest.RequiredKeys(pod) {
			object, ok := v.objects[ref.ObjectRef]
			if !ok {
				continue
			}
			keys := object.object.Keys()
			if slices.Contains(keys, ref.Key) {
				continue
			}
			has := "it has none"
			if len(keys) > 0 {
				has = "it has " + strings.Join(keys[:min(len(keys), 10)], ", ")
			}
			if object.object.Secret != nil {
				has = "correct the key"
			}
			v.faults = append(v.faults, manifest.Fault{
				Unit: v.owners[v.names[i]], Object: "Pod " + v.names[i], Warning: true,
				Problem: fmt.Sprintf("requires the %s, which does not have it", ref),
				Remedy:  has + "; or mark the reference as optional; the pod waits for it",
			})
		}
	}
}

// checkIgnored finds what a directory contains and the daemon does not read.
func (v *validator) checkIgnored(path string) {
	if !isDirectory(path) {
		return
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return // reported when it is read
	}
	var names []string
	for _, e := range entries {
		if manifest.IsIgnored(e) {
			names = append(names, e.Name())
		}
	}
	if len(names) > 0 {
		v.faults = append(v.faults, manifest.Fault{Unit: path, Warning: true, Problem: manifest.DescribeIgnored(names),
			Remedy: "manifests end in .yaml, .yml or .json, and are not in subdirectories"})
	}
}
