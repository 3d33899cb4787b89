package kubeapi

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

var (
	serviceColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Type", "Type of the Service."),
		column("Cluster-IP", "Address of the Service, None for one whose name gives the addresses of its pods."),
		column("External-IP", "Always none."),
		column("Port(s)", "Ports of the Service."),
		column("Age", "Always unknown: a manifest has no creation time."),
		wide("Selector", "Labels of the pods of the Service."),
	}
	priorityClassColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		{Name: "Value", Type: "integer", Description: "Priority of the pods of this class."},
		{Name: "Global-Default", Type: "boolean", Description: "Whether it is the class of pods without one."},
		column("Age", "Always unknown: a manifest has no creation time."),
		column("PreemptionPolicy", "Whether pods of this class may preempt others."),
	}
	runtimeClassColumns = []metav1.TableColumnDefinition{
		nameColumn(),
		column("Handler", "Handler of the container runtime."),
		column("Age", "Always unknown: a manifest has no creation time."),
	}
)

func serviceRow(o Object) []any {
	s := o.(*v1.Service)
	var ports []string
	for _, p := range s.Spec.Ports {
		protocol := p.Protocol
		if protocol == "" {
			protocol = v1.ProtocolTCP
		}
		ports = append(ports, fmt.Sprintf("%d/%s", p.Port, protocol))
	}
	kind := s.Spec.Type
	if kind == "" {
		kind = v1.ServiceTypeClusterIP
	}
	return []any{
		s.Name, string(kind), orNone(s.Spec.ClusterIP), none, orNone(strings.Join(ports, ",")), since(s.CreationTimestamp),
		orNone(labels.FormatLabels(s.Spec.Selector)),
	}
}

func serviceFields(o Object) fields.Set {
	s, set := o.(*v1.Service), nameFields(o)
	set["spec.clusterIP"], set["spec.type"] = s.Spec.ClusterIP, string(s.Spec.Type)
	return set
}

func priorityClassRow(o Object) []any {
	c := o.(*schedulingv1.PriorityClass)
	policy := v1.PreemptLowerPriority
	if c.PreemptionPolicy != nil {
		policy = *c.PreemptionPolicy
	}
	return []any{c.Name, int64(c.Value), c.GlobalDefault, since(c.CreationTimestamp), string(policy)}
}

func runtimeClassRow(o Object) []any {
	c := o.(*nodev1.RuntimeClass)
	return []any{c.Name, c.Handler, since(c.CreationTimestamp)}
}
