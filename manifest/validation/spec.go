package validation

import (
	"fmt"
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the C library's resolver, as in the API.
const (
	maxNameservers     = 3
	maxSearchDomains   = 32
	maxSearchListChars = 2048
	// maxHostname is the kernel's limit (HOST_NAME_MAX).
	maxHostname = 64
)

// podSpec validates the settings of the pod as a whole.
func (v *validator) podSpec(spec *field.Path) {
	s := v.spec
	requiredOneOf(v, spec.Child("restartPolicy"), s.RestartPolicy,
		v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever)
	if s.TerminationGracePeriodSeconds == nil {
		v.required(spec.Child("terminationGracePeriodSeconds"),
			"must be the seconds that containers get to terminate, such as 30")
	}
	if seconds := s.ActiveDeadlineSeconds; seconds != nil {
		v.inRange(spec.Child("activeDeadlineSeconds"), *seconds, 1, math.MaxInt32)
	}
	for i, gate := range s.ReadinessGates {
		v.qualifiedName(spec.Child("readinessGates").Index(i).Child("conditionType"), string(gate.ConditionType))
	}
	optional := func(name, value string, rule validation.ValidateNameFunc) {
		if value != "" {
			v.rules(spec.Child(name), value, rule(value, false))
		}
	}
	optional("serviceAccountName", s.ServiceAccountName, validation.ValidateServiceAccountName)
	optional("priorityClassName", s.PriorityClassName, validation.NameIsDNSSubdomain)
	if s.RuntimeClassName != nil {
		v.dnsSubdomain(spec.Child("runtimeClassName"), *s.RuntimeClassName)
	}
	if s.PreemptionPolicy != nil {
		requiredOneOf(v, spec.Child("preemptionPolicy"), *s.PreemptionPolicy, v1.PreemptLowerPriority, v1.PreemptNever)
	}
	v.overhead(spec.Child("overhead"))
}

// overhead validates the resources that a pod uses in addition to its
// containers.
func (v *validator) overhead(path *field.Path) {
	for name, quantity := range sortedMap(v.spec.Overhead) {
		v.containerResourceName(path.Key(string(name)), name)
		v.quantity(path.Key(string(name)), name, quantity)
	}
	overhead := &v1.ResourceRequirements{Limits: v.spec.Overhead}
	if hasResource(overhead, isHugePages) && !hasResource(overhead, isComputeResource) {
		v.forbidden(path, "hugepages need a cpu or memory resource as well; add one of them")
	}
}

// podNetwork validates ports on the host network, names and DNS.
func (v *validator) podNetwork(spec *field.Path) {
	s := v.spec
	if s.HostNetwork {
		for i := range s.Containers {
			for j, port := range s.Containers[i].Ports {
				if port.HostPort != port.ContainerPort {
					v.invalid(spec.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"), port.HostPort,
						"must be omitted or equal to containerPort, since the pod uses the host network")
				}
			}
		}
	}
	if s.Hostname != "" {
		v.dnsLabel(spec.Child("hostname"), s.Hostname)
	}
	if s.Subdomain != "" {
		v.dnsLabel(spec.Child("subdomain"), s.Subdomain)
	}
	if s.HostnameOverride != nil {
		v.hostnameOverride(spec.Child("hostnameOverride"), *s.HostnameOverride)
	}
	for i, alias := range s.HostAliases {
		at := spec.Child("hostAliases").Index(i)
		v.ip(at.Child("ip"), alias.IP)
		for j, name := range alias.Hostnames {
			v.dnsSubdomain(at.Child("hostnames").Index(j), name)
		}
	}
	requiredOneOf(v, spec.Child("dnsPolicy"), s.DNSPolicy,
		v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst, v1.DNSDefault, v1.DNSNone)
	v.dnsConfig(spec.Child("dnsConfig"))
}

func (v *validator) hostnameOverride(path *field.Path, name string) {
	if v.spec.SetHostnameAsFQDN != nil && *v.spec.SetHostnameAsFQDN {
		v.forbidden(path, "cannot be set together with setHostnameAsFQDN: true; remove one of them")
	}
	if v.spec.HostNetwork {
		v.forbidden(path, "cannot be set together with hostNetwork: true, which uses the host's name; remove one of them")
	}
	if len(name) > maxHostname {
		v.add(field.TooLong(path, name, maxHostname))
	}
	v.dnsSubdomain(path, name)
}

func (v *validator) ip(path *field.Path, value string) {
	v.add(utilvalidation.IsValidIPForLegacyField(path, value, true, nil)...)
}

func (v *validator) dnsConfig(path *field.Path) {
	config := v.spec.DNSConfig
	if v.spec.DNSPolicy == v1.DNSNone {
		if config == nil {
			v.required(path, "dnsPolicy: None needs nameservers here")
			return
		}
		if len(config.Nameservers) == 0 {
			v.required(path.Child("nameservers"), "dnsPolicy: None needs at least one nameserver")
		}
	}
	if config == nil {
		return
	}
	if len(config.Nameservers) > maxNameservers {
		v.invalid(path.Child("nameservers"), config.Nameservers, fmt.Sprintf("must have at most %d entries", maxNameservers))
	}
	for i, server := range config.Nameservers {
		v.ip(path.Child("nameservers").Index(i), server)
	}
	if len(config.Searches) > maxSearchDomains {
		v.invalid(path.Child("searches"), config.Searches, fmt.Sprintf("must have at most %d entries", maxSearchDomains))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchListChars {
		v.invalid(path.Child("searches"), config.Searches,
			fmt.Sprintf("must be at most %d characters long, including the spaces between them", maxSearchListChars))
	}
	for i, search := range config.Searches {
		if search != "." {
			v.rules(path.Child("searches").Index(i), search,
				utilvalidation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(search, ".")))
		}
	}
	for i, option := range config.Options {
		v.requireSet(path.Child("options").Index(i).Child("name"), option.Name,
			"must be the name of a resolver option, such as ndots")
	}
}
