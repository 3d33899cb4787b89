package kubeapi

import (
	"cmp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Sources are the sources of the resources. Pods, Nodes, Namespaces and Events are required;
// another resource has no objects, and cannot be written, if its source has no List.
type Sources struct {
	Pods, Nodes, Namespaces, Events Source
	ConfigMaps, Secrets, Claims     Source
	Volumes, Services               Source
	PriorityClasses, RuntimeClasses Source
	StorageClasses                  Source
}

// resource is one row of the table of served resources. Its fields are what discovery, tables,
// selectors, reads and writes of one resource need; each row sets most of them as constants.
type resource struct {
	// group and version are the API group and its version, "" and v1 if both are empty.
	group, version       string
	name, singular, kind string
	short                []string
	namespaced           bool
	categories           []string
	columns              []metav1.TableColumnDefinition
	row                  func(Object) []any
	// empty is an object without content.
	empty Object
	// fields returns the fields that a field selector may use.
	fields func(Object) fields.Set
	// fullNames replaces names of manifests in a field selector; nil if there are none.
	fullNames func(selector fields.Selector, namespace string) fields.Selector
	// declared reports that manifests declare the objects, so that clients can write them.
	declared bool
	// unsupported reports that there never are any objects: clients list them nevertheless.
	unsupported bool
	// writeHint reports what to do instead of writing.
	writeHint string
	cache     *cache
	// adminView is what admins see instead; nil if all callers see the same.
	adminView *resource
	// writeTimeout replaces the constant writeTimeout in tests; 0 is the constant.
	writeTimeout time.Duration
}

// apiVersion returns the group and the version, as objects name them.
func (r *resource) apiVersion() string {
	if r.group == "" {
		return "v1"
	}
	return r.group + "/" + r.version
}

// resources returns the table in the order of discovery.
func resources(src Sources, versions *Versions) []*resource {
	served := append(append(objectResources(src, versions), emptyResources(versions)...), []*resource{
		{
			name: "events", singular: "event", kind: "Event", empty: &v1.Event{}, short: []string{"ev"}, namespaced: true,
			columns: eventColumns, row: eventRow, fields: eventFields,
			writeHint: "events are created only by podstead",
			cache:     newCache(src.Events, versions),
		},
		{
			group: "events.k8s.io", version: "v1",
			name: "events", singular: "event", kind: "Event", empty: &eventsv1.Event{}, short: []string{"ev"}, namespaced: true,
			columns: eventColumns, row: newEventRow, fields: newEventFields,
			writeHint: "events are created only by podstead",
			cache:     newCache(newEventSource(src.Events), versions),
		},
		{
			group: "coordination.k8s.io", version: "v1",
			name: "leases", singular: "lease", kind: "Lease", empty: &coordinationv1.Lease{}, namespaced: true,
			columns: leaseColumns, row: leaseRow, fields: nameFields,
			writeHint: "podstead renews the lease of the node",
			cache:     newCache(leaseSource(src.Nodes), versions),
		},
		{
			name: "namespaces", singular: "namespace", kind: "Namespace", empty: &v1.Namespace{}, short: []string{"ns"},
			columns: namespaceColumns, row: namespaceRow, fields: nameFields,
			writeHint: "a namespace exists while a manifest uses it",
			cache:     newCache(src.Namespaces, versions),
		},
		{
			name: "nodes", singular: "node", kind: "Node", empty: &v1.Node{}, short: []string{"no"},
			columns: nodeColumns, row: nodeRow, fields: nodeFields,
			writeHint: "the node is described by the flags and the configuration file of podstead",
			cache:     newCache(src.Nodes, versions),
		},
		{
			name: "pods", singular: "pod", kind: "Pod", empty: &v1.Pod{}, short: []string{"po"}, namespaced: true,
			categories: []string{"all"},
			columns:    podColumns, row: podRow, fields: podFields,
			declared: true, writeHint: "pods are declared in manifests",
			cache: newCache(src.Pods, versions),
		},
	}...)
	slices.SortFunc(served, func(a, b *resource) int {
		return cmp.Or(strings.Compare(a.group, b.group), strings.Compare(a.name, b.name))
	})
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
