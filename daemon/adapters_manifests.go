package daemon

import (
	"slices"
	"strings"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/manifest"
)

// manifestView serves the sources and their manifests to the API.
type manifestView struct {
	config *manifest.PodConfig
	opts   config.Manifests
	// server is the API server's kubeconfig, the location of its source.
	server string
}

// Objects implements httpapi.ObjectLister.
func (v manifestView) Objects() []api.ManifestObject {
	var out []api.ManifestObject
	for _, o := range v.config.Objects().List() {
		out = append(out, api.ManifestObject{
			Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Source: string(o.Source), Manifest: o.Unit,
			Revision: o.Revision, Keys: o.Keys, Type: o.Type,
		})
	}
	return out
}

// Manifests implements httpapi.ManifestLister.
func (v manifestView) Manifests() []api.ManifestSource {
	var out []api.ManifestSource
	for _, s := range v.config.Snapshot() {
		src := api.ManifestSource{Source: string(s.Source), Location: v.opts.Path, Delivered: s.Delivered, Incomplete: s.Incomplete, Ignored: s.Ignored, Time: s.LastRead, Units: []api.ManifestUnit{}}
		switch s.Source {
		case manifest.SourceHTTP:
			src.Location = v.opts.RedactedURL()
		case manifest.SourceOCI:
			src.Location = strings.Join(v.opts.OCI, ", ")
		case manifest.SourceAPI:
			src.Location = v.server
		}
		switch {
		case s.Fault == nil:
		case s.Fault.Warning:
			src.Warning = s.Fault.Error()
		default:
			src.Fault = s.Fault.Error()
		}
		for _, u := range s.Units {
			unit := api.ManifestUnit{Name: u.Name, Digest: u.Digest, Revision: u.Revision, Restored: u.Faults.Fatal() && len(u.Pods) > 0}
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

// manifestFinder finds the manifest that a pod or an object comes from.
type manifestFinder struct {
	config *manifest.PodConfig
}

// find returns the manifest's name, empty if there is none.
func (f manifestFinder) find(kind, namespace, name string) string {
	for _, o := range f.config.Objects().List() {
		if o.Kind == kind && o.Namespace == namespace && o.Name == name {
			return o.Unit
		}
	}
	if kind != "Pod" {
		return ""
	}
	for _, source := range f.config.Snapshot() {
		for _, unit := range source.Units {
			if slices.ContainsFunc(unit.Pods, func(p manifest.UnitPod) bool { return p.Namespace == namespace && p.Name == name }) {
				return unit.Name
			}
		}
	}
	return ""
}
