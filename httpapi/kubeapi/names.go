package kubeapi

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/podstead/podstead/internal/suggest"
)

// A static pod is named NAME-NODE, as its mirror pod in a cluster is, and NAME in its manifest.
// Lists and watches show the full name. A request for one pod may use either name, so that
// kubectl works with the files that declare pods.

// suffix is what the names of static pods end with.
func (a *API) suffix() string { return "-" + strings.ToLower(a.node) }

// lookup returns an object by its name, that of a pod also by the name in its manifest; nil if
// there is none. declared is the name in the manifest.
func (a *API) lookup(res *resource, namespace, name string) (e *entry, declared string) {
	e = res.cache.get(namespace, name)
	if res.kind != "Pod" || a.node == "" {
		return e, name
	}
	if e == nil {
		e = res.cache.get(namespace, name+a.suffix())
		if e != nil && a.manifestName(e.object.(*v1.Pod)) != name {
			e = nil
		}
	}
	if e != nil {
		return e, a.manifestName(e.object.(*v1.Pod))
	}
	if short := strings.TrimSuffix(name, a.suffix()); short != "" {
		return nil, short
	}
	return nil, name
}

// fullName returns the name of the pod that a field selector means.
func (a *API) fullName(namespace, name string) string {
	if a.node == "" || strings.HasSuffix(name, a.suffix()) {
		return name
	}
	for _, res := range a.resources {
		if res.kind != "Pod" {
			continue
		}
		all, _ := res.cache.list()
		if slices.ContainsFunc(all, func(e *entry) bool {
			return e.object.GetName() == name && (namespace == "" || e.object.GetNamespace() == namespace)
		}) {
			return name
		}
	}
	return name + a.suffix()
}

// podNames replaces the name of a manifest in a field selector of pods.
func (a *API) podNames(selector fields.Selector, namespace string) fields.Selector {
	return a.withFullName(selector, namespace, "metadata.name")
}

// involvedNames replaces the name of a manifest in a field selector of the events of a pod.
func (a *API) involvedNames(selector fields.Selector, namespace string) fields.Selector {
	if kind, _ := selector.RequiresExactMatch("involvedObject.kind"); kind != "Pod" {
		return selector
	}
	return a.withFullName(selector, namespace, "involvedObject.name")
}

func (a *API) withFullName(selector fields.Selector, namespace, field string) fields.Selector {
	name, exact := selector.RequiresExactMatch(field)
	if !exact || name == "" {
		return selector
	}
	full := a.fullName(namespace, name)
	changed, err := selector.Transform(func(f, value string) (string, string, error) {
		if f == field && value == name {
			value = full
		}
		return f, value, nil
	})
	if err != nil {
		return selector
	}
	return changed
}

// podInstead returns, as the end of a sentence, the pod that a client probably means that asks for
// a workload of a cluster, as kubectl rollout does.
func (a *API) podInstead(res *resource, namespace, name string) string {
	if res.group != "apps" && res.group != "batch" {
		return ""
	}
	for _, pods := range a.resources {
		if pods.kind != "Pod" {
			continue
		}
		if e, short := a.lookup(pods, namespace, name); e != nil {
			return "; pod " + e.object.GetName() + " is in a manifest: use podstead rollout and podstead restart with " + short
		}
	}
	return ""
}

// similar returns what a missing object is probably called, as the end of a sentence.
func (a *API) similar(res *resource, namespace, name string) string {
	if res.unsupported {
		return a.podInstead(res, namespace, name)
	}
	all, _ := res.cache.list()
	var names []string
	for _, e := range all {
		own, short := e.object.GetName(), e.object.GetName()
		if pod, ok := e.object.(*v1.Pod); ok && a.manifestName != nil {
			short = a.manifestName(pod)
		}
		switch {
		case e.object.GetNamespace() == namespace:
			names = append(names, own, short)
		case own == name || short == name:
			return "; " + own + " is in namespace " + e.object.GetNamespace()
		}
	}
	if nearest := suggest.Nearest(name, names); nearest != "" {
		if _, found := a.lookup(res, namespace, nearest); found != "" {
			if e, _ := a.lookup(res, namespace, nearest); e != nil {
				nearest = e.object.GetName()
			}
		}
		return "; did you mean " + nearest + "?"
	}
	return ""
}
