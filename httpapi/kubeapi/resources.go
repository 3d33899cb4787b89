package kubeapi

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Sources are what the resources are read from. Pods, Nodes, Namespaces and
// Events are needed; another one without List is not served.
type Sources struct {
	Pods, Nodes, Namespaces, Events Source
	ConfigMaps, Secrets, Claims     Source
}

// resource is one row of the table of what this API serves, all of it of
// group "" and version v1.
type resource struct {
	name, singular, kind string
	short                []string
	namespaced           bool
	categories           []string
	columns              []metav1.TableColumnDefinition
	row                  func(Object) []any
	// empty is an object with nothing in it.
	empty Object
	// fields are those that a field selector may name.
	fields func(Object) fields.Set
	// write is what to do instead of writing.
	writeHint string
	cache     *cache
	// whole is what admins see in its place, nil if everybody sees the same.
	adminView *resource
	// patience is writeTimeout but for tests.
	writeTimeout time.Duration
}

// resources is the table, in the order of discovery.
func resources(src Sources, versions *Versions) []*resource {
	served := append(objectResources(src, versions), []*resource{
		{
			name: "events", singular: "event", kind: "Event", empty: &v1.Event{}, short: []string{"ev"}, namespaced: true,
			columns: eventColumns, row: eventRow, fields: eventFields,
			writeHint: "events are made by podstead alone",
			cache:     newCache(src.Events, versions),
		},
		{
			name: "namespaces", singular: "namespace", kind: "Namespace", empty: &v1.Namespace{}, short: []string{"ns"},
			columns: namespaceColumns, row: namespaceRow, fields: nameFields,
			writeHint: "a namespace is there as soon as a manifest names it, and goes with the last one",
			cache:     newCache(src.Namespaces, versions),
		},
		{
			name: "nodes", singular: "node", kind: "Node", empty: &v1.Node{}, short: []string{"no"},
			columns: nodeColumns, row: nodeRow, fields: nodeFields,
			writeHint: "this node is described by the flags and the configuration of podstead",
			cache:     newCache(src.Nodes, versions),
		},
		{
			name: "pods", singular: "pod", kind: "Pod", empty: &v1.Pod{}, short: []string{"po"}, namespaced: true, categories: []string{"all"},
			columns: podColumns, row: podRow, fields: podFields,
			writeHint: "pods are what the manifests say",
			cache:     newCache(src.Pods, versions),
		},
	}...)
	slices.SortFunc(served, func(a, b *resource) int { return strings.Compare(a.name, b.name) })
	return served
}

func nameFields(o Object) fields.Set {
	return fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
}

func podFields(o Object) fields.Set {
	p, set := o.(*v1.Pod), nameFields(o)
	set["spec.nodeName"] = p.Spec.NodeName
	set["spec.restartPolicy"] = string(p.Spec.RestartPolicy)
	set["spec.schedulerName"] = p.Spec.SchedulerName
	set["spec.serviceAccountName"] = p.Spec.ServiceAccountName
	set["spec.hostNetwork"] = "false"
	if p.Spec.HostNetwork {
		set["spec.hostNetwork"] = "true"
	}
	set["status.phase"] = string(p.Status.Phase)
	set["status.podIP"] = p.Status.PodIP
	set["status.nominatedNodeName"] = p.Status.NominatedNodeName
	return set
}

func nodeFields(o Object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "spec.unschedulable": "false"}
	if o.(*v1.Node).Spec.Unschedulable {
		set["spec.unschedulable"] = "true"
	}
	return set
}

func eventFields(o Object) fields.Set {
	e, set := o.(*v1.Event), nameFields(o)
	set["involvedObject.kind"] = e.InvolvedObject.Kind
	set["involvedObject.namespace"] = e.InvolvedObject.Namespace
	set["involvedObject.name"] = e.InvolvedObject.Name
	set["involvedObject.uid"] = string(e.InvolvedObject.UID)
	set["involvedObject.apiVersion"] = e.InvolvedObject.APIVersion
	set["involvedObject.resourceVersion"] = e.InvolvedObject.ResourceVersion
	set["involvedObject.fieldPath"] = e.InvolvedObject.FieldPath
	set["reason"] = e.Reason
	set["reportingComponent"] = e.ReportingController
	set["source"] = e.Source.Component
	set["type"] = e.Type
	return set
}
