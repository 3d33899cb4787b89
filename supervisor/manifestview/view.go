package manifestview

import (
	"slices"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/manifest"
)

// View lists the sources of manifests and what their manifests declare.
type View struct {
	Config *manifest.PodConfig
	// Locations are where each source is read: a directory, file or URL, or artifacts.
	Locations map[manifest.Source]string
}

// Objects implements httpapi.ObjectLister.
func (v View) Objects() []api.ManifestObject {
	var out []api.ManifestObject
	for _, o := range v.Config.Objects().List() {
		out = append(out, api.ManifestObject{
			Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Source: string(o.Source), Manifest: o.Unit,
			Revision: o.Revision, Keys: o.Keys, Type: o.Type,
		})
	}
	return out
}

// Manifests implements httpapi.ManifestLister.
func (v View) Manifests() []api.ManifestSource {
	var out []api.ManifestSource
	for _, s := range v.Config.Snapshot() {
		src := api.ManifestSource{
			Source: string(s.Source), Location: v.Locations[s.Source], Delivered: s.Delivered,
			Incomplete: s.Incomplete, Ignored: s.Ignored, Time: s.LastRead, Units: []api.ManifestUnit{},
		}
		switch {
		case s.Fault == nil:
		case s.Fault.Warning:
			src.Warning = s.Fault.Error()
		default:
			src.Fault = s.Fault.Error()
		}
		for _, u := range s.Units {
			unit := api.ManifestUnit{Name: u.Name, Digest: u.Digest, Revision: u.Revision, Restored: u.Faults.Fatal() &&
				len(u.Pods) > 0}
			for _, p := range u.Pods {
				unit.Pods = append(unit.Pods, p.Namespace+"/"+p.BaseName)
			}
			for _, f := range u.Faults {
				if f.Warning {
					unit.Warnings = append(unit.Warnings, f.Error())
				} else {
					unit.Faults = append(unit.Faults, f.Error())
				}
			}
			src.Units = append(src.Units, unit)
		}
		out = append(out, src)
	}
	return out
}

// Find returns the name of the manifest that declares a pod, by its name with the node's suffix, or another object;
// empty if there is none.
func (v View) Find(kind, namespace, name string) string {
	for _, o := range v.Config.Objects().List() {
		if o.Kind == kind && o.Namespace == namespace && o.Name == name {
			return o.Unit
		}
	}
	if kind != "Pod" {
		return ""
	}
	for _, source := range v.Config.Snapshot() {
		for _, unit := range source.Units {
			if slices.ContainsFunc(unit.Pods,
				func(p manifest.UnitPod) bool { return p.Namespace == namespace && p.Name == name }) {
				return unit.Name
			}
		}
	}
	return ""
}
