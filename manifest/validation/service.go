package validation

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const podAddresses = "the name of a Service gives the addresses of its pods, and there is no virtual address"

// setServiceDefaults sets the defaults of a Service that something here depends on.
func setServiceDefaults(spec *v1.ServiceSpec) {
	setDefault(&spec.Type, v1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		port := &spec.Ports[i]
		setDefault(&port.Protocol, v1.ProtocolTCP)
		if port.TargetPort == (intstr.IntOrString{}) {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
}

// service validates a Service. It departs from the API server in what a node without a proxy
// cannot do, which is rejected here.
func (v *validator) service(service *v1.Service) {
	spec, path := &service.Spec, field.NewPath("spec")
	v.rules(field.NewPath("metadata", "name"), service.Name, utilvalidation.IsDNS1035Label(service.Name))
	switch spec.Type {
	case v1.ServiceTypeClusterIP:
		v.labels(path.Child("selector"), spec.Selector)
		if len(spec.Selector) == 0 {
			v.required(path.Child("selector"),
				"must be the labels of the pods: without an API server nothing else names the addresses of a Service")
		}
	case v1.ServiceTypeExternalName:
		if v.requireSet(path.Child("externalName"), spec.ExternalName, "must be a DNS name, such as db.example.com") {
			v.dnsSubdomain(path.Child("externalName"), spec.ExternalName)
		}
	case v1.ServiceTypeNodePort, v1.ServiceTypeLoadBalancer:
		v.forbidden(path.Child("type"), string(spec.Type)+" needs a proxy, which this node does not have; remove the "+
			"field, and set hostPort in the pod to reach it from other machines")
	default:
		v.invalid(path.Child("type"), string(spec.Type), "must be ClusterIP or ExternalName")
	}
	v.serviceAddresses(path, spec)
	v.servicePorts(path, spec)
}

// serviceAddresses rejects what only a proxy can do.
func (v *validator) serviceAddresses(path *field.Path, spec *v1.ServiceSpec) {
	if ip := spec.ClusterIP; ip != "" && ip != v1.ClusterIPNone {
		v.forbidden(path.Child("clusterIP"), podAddresses+"; remove the field or set it to None")
	}
	for i, ip := range spec.ClusterIPs {
		if ip != v1.ClusterIPNone {
			v.forbidden(path.Child("clusterIPs").Index(i), podAddresses+"; remove the field")
		}
	}
	for i, family := range spec.IPFamilies {
		if family != v1.IPv4Protocol && family != v1.IPv6Protocol {
			v.invalid(path.Child("ipFamilies").Index(i), string(family), "must be IPv4 or IPv6")
		}
	}
	if spec.SessionAffinity != "" && spec.SessionAffinity != v1.ServiceAffinityNone {
		v.forbidden(path.Child("sessionAffinity"), podAddresses+"; clients choose among them, so remove the field")
	}
	for _, f := range []struct {
		set  bool
		name string
	}{
		{len(spec.ExternalIPs) > 0, "externalIPs"},
		{spec.LoadBalancerIP != "", "loadBalancerIP"},
		{len(spec.LoadBalancerSourceRanges) > 0, "loadBalancerSourceRanges"},
		{spec.LoadBalancerClass != nil, "loadBalancerClass"},
	} {
		if f.set {
			v.forbidden(path.Child(f.name),
				podAddresses+"; remove the field, and set hostPort in the pod to reach it from other machines")
		}
	}
}

func (v *validator) servicePorts(path *field.Path, spec *v1.ServiceSpec) {
	names := map[string]bool{}
	for i := range spec.Ports {
		port, at := &spec.Ports[i], path.Child("ports").Index(i)
		switch {
		case port.Name != "":
			v.dnsLabel(at.Child("name"), port.Name)
			if names[port.Name] {
				v.duplicate(at.Child("name"), port.Name, "must be different from those of the other ports")
			}
			names[port.Name] = true
		case len(spec.Ports) > 1:
			v.required(at.Child("name"), "must be set if there are several ports")
		}
		v.rules(at.Child("port"), port.Port, utilvalidation.IsValidPortNum(int(port.Port)))
		switch port.Protocol {
		case v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
		default:
			v.invalid(at.Child("protocol"), string(port.Protocol), "must be TCP, UDP or SCTP")
		}
		if port.NodePort != 0 {
			v.forbidden(at.Child("nodePort"),
				"a node port needs a proxy, which this node does not have; remove the field, and set hostPort in the pod")
		}
		v.targetPort(at, spec, port)
	}
}

// targetPort validates where a port leads. Without a proxy, clients connect to the port of the
// pod: another port would be closed.
func (v *validator) targetPort(at *field.Path, spec *v1.ServiceSpec, port *v1.ServicePort) {
	at, target := at.Child("targetPort"), port.TargetPort
	if target.Type == intstr.String {
		v.rules(at, target.StrVal, utilvalidation.IsValidPortName(target.StrVal))
	} else {
		v.rules(at, target.IntVal, utilvalidation.IsValidPortNum(target.IntValue()))
	}
	if spec.ClusterIP == v1.ClusterIPNone || spec.Type != v1.ServiceTypeClusterIP ||
		target == intstr.FromInt32(port.Port) {
		return
	}
	v.forbidden(at, fmt.Sprintf("%s, so that clients connect to the port of the container; write that number as port "+
		"and remove targetPort, or set clusterIP: None if clients use the container's port", podAddresses))
}

// serviceWarnings returns the fields of a Service that have no effect here.
func serviceWarnings(spec *v1.ServiceSpec) (warnings []FieldFault) {
	for _, f := range []struct {
		set  bool
		name string
	}{
		{spec.ExternalTrafficPolicy != "", "externalTrafficPolicy"},
		{spec.InternalTrafficPolicy != nil && *spec.InternalTrafficPolicy != v1.ServiceInternalTrafficPolicyCluster,
			"internalTrafficPolicy"},
		{spec.TrafficDistribution != nil, "trafficDistribution"},
		{spec.HealthCheckNodePort != 0, "healthCheckNodePort"},
		{spec.AllocateLoadBalancerNodePorts != nil, "allocateLoadBalancerNodePorts"},
		{spec.SessionAffinityConfig != nil, "sessionAffinityConfig"},
		{spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy != v1.IPFamilyPolicySingleStack, "ipFamilyPolicy"},
	} {
		if f.set {
			warnings = append(warnings, FieldFault{Path: "spec." + f.name, Warning: true,
				Problem: "has no effect: " + podAddresses, Remedy: "remove the field"})
		}
	}
	return warnings
}
