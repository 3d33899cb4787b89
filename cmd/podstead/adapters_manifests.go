package main

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/rollout"
)

// manifestView serves the sources and their manifests to the API.
type manifestView struct {
	config   *manifest.PodConfig
	pods     *supervisor.Supervisor
	rollouts *rollout.Controller
	opts     options.Manifests
	// server is the API server's kubeconfig, the location of its source.
	server string
}

// Objects implements httpapi.ObjectLister.
func (v manifestView) Objects() []httpapi.Object {
	var out []httpapi.Object
	for _, o := range v.config.Objects().List() {
		out = append(out, httpapi.Object{
			Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, Source: string(o.Source), Manifest: o.Unit,
			Revision: o.Revision, Keys: o.Keys, Type: o.Type,
		})
	}
	return out
}

// Manifests implements httpapi.ManifestLister.
func (v manifestView) Manifests() []httpapi.ManifestSource {
	names := map[types.UID]string{}
	for _, p := range v.pods.Pods() {
		names[v.rollouts.ManifestUID(p.UID)] = p.Namespace + "/" + manifest.BaseName(p)
	}
	var out []httpapi.ManifestSource
	for _, s := range v.config.Snapshot() {
		src := httpapi.ManifestSource{Source: string(s.Source), Location: v.opts.Path, Delivered: s.Delivered, Incomplete: s.Incomplete, Ignored: s.Ignored, Time: s.LastRead, Units: []httpapi.ManifestUnit{}}
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
			unit := httpapi.ManifestUnit{Name: u.Name, Digest: u.Digest, Revision: u.Revision, Restored: u.Faults.Fatal() && len(u.UIDs) > 0}
			for _, uid := range u.UIDs {
				if n, ok := names[uid]; ok {
					unit.Pods = append(unit.Pods, n)
				}
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
	config   *manifest.PodConfig
	rollouts *rollout.Controller
	sup      *supervisor.Supervisor
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
	for _, pod := range f.sup.Pods() {
		if pod.Namespace == namespace && pod.Name == name {
			return f.unitOf(f.rollouts.ManifestUID(pod.UID))
		}
	}
	return ""
}

func (f manifestFinder) unitOf(uid types.UID) string {
	for _, source := range f.config.Snapshot() {
		for _, unit := range source.Units {
			if slices.Contains(unit.UIDs, uid) {
				return unit.Name
			}
		}
	}
	return ""
}
