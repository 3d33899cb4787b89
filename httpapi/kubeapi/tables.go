package kubeapi

import (
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/internal/podtable"
)

const none = "<none>"

// column returns a column of every table, wide one that -o wide adds.
func column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

func wide(name, description string) metav1.TableColumnDefinition {
	c := column(name, description)
	c.Priority = 1
	return c
}

func nameColumn() metav1.TableColumnDefinition {
	c := column("Name", "Name of the object.")
	c.Format = "name"
	return c
}

var (
	podColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Ready", "Number of ready containers in the pod."),
		column("Status", "State of the pod, or the reason why it is not running."),
		column("Restarts", "Number of container restarts, and the time since the last one."),
		column("Age", "Time since the pod was started."),
		wide("IP", "First IP address of the pod."),
		wide("Node", "Name of the node."),
		wide("Nominated Node", "Always none: podstead has no scheduler."),
		wide("Readiness Gates", "Number of readiness gates that are true."),
	}
	nodeColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "Readiness of the node."),
		column("Roles", "Roles of the node."),
		column("Age", "Time since podstead was first started."),
		column("Version", "Version of podstead."),
		wide("Internal-IP", "Address of the node."),
		wide("External-IP", "Always none."),
		wide("OS-Image", "Operating system of the node."),
		wide("Kernel-Version", "Kernel of the node."),
		wide("Container-Runtime", "Container runtime of the node."),
	}
	namespaceColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Status", "Always Active: a namespace exists while it contains objects."),
		column("Age", "Time since podstead was started."),
	}
	eventColumns = []metav1.TableColumnDefinition{
		column("Last Seen", "Time since the last occurrence."),
		column("Type", "Normal or Warning."),
		column("Reason", "Reason of the event."),
		column("Object", "Object of the event."),
		wide("Subobject", "Part of the object."),
		wide("Source", "Component that reported the event."),
		column("Message", "Description of the event."),
		wide("First Seen", "Time since the first occurrence."),
		wide("Count", "Number of occurrences."),
		wide("Name", "Name of the event."),
	}
)

func podRow(o Object) []any {
	p := o.(*v1.Pod)
	now := time.Now()
	ready, restarts, last := podtable.Tally(p)
	return []any{
		p.Name, fmt.Sprintf("%d/%d", ready, podtable.Containers(p)), podtable.State(p),
		podtable.Restarts(restarts, last, now), podtable.Age(p, now),
		orNone(p.Status.PodIP), orNone(p.Spec.NodeName), orNone(p.Status.NominatedNodeName), gates(p),
	}
}

// gates returns the number of readiness gates that are true.
func gates(p *v1.Pod) string {
	if len(p.Spec.ReadinessGates) == 0 {
		return none
	}
	met := 0
	for _, gate := range p.Spec.ReadinessGates {
		for _, c := range p.Status.Conditions {
			if c.Type == gate.ConditionType && c.Status == v1.ConditionTrue {
				met++
			}
		}
	}
	return fmt.Sprintf("%d/%d", met, len(p.Spec.ReadinessGates))
}

func nodeRow(o Object) []any {
	n := o.(*v1.Node)
	status, roles, address := "Unknown", []string(nil), ""
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			status = "NotReady"
			if c.Status == v1.ConditionTrue {
				status = "Ready"
			}
		}
	}
	for label := range n.Labels {
		if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
			roles = append(roles, role)
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type == v1.NodeInternalIP && address == "" {
			address = a.Address
		}
	}
	info := &n.Status.NodeInfo
	return []any{
		n.Name, status, orNone(strings.Join(roles, ",")), since(n.CreationTimestamp), info.KubeletVersion,
		orNone(address), none, orNone(info.OSImage), orNone(info.KernelVersion), orNone(info.ContainerRuntimeVersion),
	}
}

func namespaceRow(o Object) []any {
	n := o.(*v1.Namespace)
	return []any{n.Name, string(n.Status.Phase), since(n.CreationTimestamp)}
}

func eventRow(o Object) []any {
	e := o.(*v1.Event)
	first, last := e.FirstTimestamp, e.LastTimestamp
	seen := since(last)
	if e.Count > 1 {
		seen = fmt.Sprintf("%s (x%d over %s)", since(last), e.Count, since(first))
	}
	source := e.Source.Component
	if e.Source.Host != "" {
		source += ", " + e.Source.Host
	}
	return []any{
		seen, e.Type, e.Reason, strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name,
		e.InvolvedObject.FieldPath, source, strings.TrimSpace(e.Message), since(first), int64(e.Count), e.Name,
	}
}

// since returns the time since t in human-readable form.
func since(t metav1.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(t.Time))
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}
