package validation

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// countedResources are names that Kubernetes reserves for counting objects: no
// container can request them, and they are always whole numbers.
var countedResources = []v1.ResourceName{
	v1.ResourcePods, v1.ResourceServices, v1.ResourceReplicationControllers, v1.ResourceQuotas, v1.ResourceSecrets,
	v1.ResourceConfigMaps, v1.ResourcePersistentVolumeClaims, v1.ResourceServicesNodePorts,
	v1.ResourceServicesLoadBalancers,
}

func (v *validator) containerResources(path *field.Path, r *v1.ResourceRequirements) {
	v.resources(path, r, v.containerResourceName)
	v.claimRefs(path.Child("claims"), r.Claims)
}

// resources validates limits and requests, with a rule for the resource names.
func (v *validator) resources(path *field.Path, r *v1.ResourceRequirements,
	nameRule func(*field.Path, v1.ResourceName)) {
	limits, requests := path.Child("limits"), path.Child("requests")
	for name, quantity := range sortedMap(r.Limits) {
		nameRule(limits.Key(string(name)), name)
		v.quantity(limits.Key(string(name)), name, quantity)
	}
	for name, quantity := range sortedMap(r.Requests) {
		at := requests.Key(string(name))
		nameRule(at, name)
		v.quantity(at, name, quantity)
		limit, limited := r.Limits[name]
		switch {
		case !limited && !canOvercommit(name):
			v.required(limits, fmt.Sprintf("%s cannot be overcommitted: the request needs an equal limit", name))
		case limited && !canOvercommit(name) && quantity.Cmp(limit) != 0:
			v.invalid(at, quantity.String(),
				fmt.Sprintf("%s cannot be overcommitted: must be equal to the limit, %s", name, limit.String()))
		case limited && quantity.Cmp(limit) > 0:
			v.invalid(at, quantity.String(), fmt.Sprintf("must be at most the limit, %s", limit.String()))
		}
	}
	if hasResource(r, isHugePages) && !hasResource(r, isComputeResource) {
		v.forbidden(path, "hugepages need a cpu or memory resource as well; add one of them")
	}
}

func hasResource(r *v1.ResourceRequirements, is func(v1.ResourceName) bool) bool {
	for _, list := range []v1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			if is(name) {
				return true
			}
		}
	}
	return false
}

func isComputeResource(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory
}

func (v *validator) quantity(path *field.Path, name v1.ResourceName, quantity resource.Quantity) {
	if quantity.Sign() < 0 {
		v.invalid(path, quantity.String(), "must be 0 or more")
	}
	if (slices.Contains(countedResources, name) || isExtendedResource(name)) && quantity.MilliValue()%1000 != 0 {
		v.invalid(path, quantity.String(), "must be a whole number")
	}
	if isHugePages(name) && !isMultipleOfPage(name, quantity) {
		v.invalid(path, quantity.String(), "must be a whole multiple of the page size in the resource's name")
	}
}

func isMultipleOfPage(name v1.ResourceName, quantity resource.Quantity) bool {
	page, err := resource.ParseQuantity(strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix))
	if err != nil || page.Sign() <= 0 || page.MilliValue()%1000 != 0 {
		return false
	}
	return quantity.Value()%page.Value() == 0
}

// containerResourceName validates the name of a resource of a container.
func (v *validator) containerResourceName(path *field.Path, name v1.ResourceName) {
	if messages := utilvalidation.IsQualifiedName(string(name)); len(messages) > 0 {
		v.rules(path, name, messages)
	} else if !strings.Contains(string(name), "/") {
		if !isComputeResource(name) && name != v1.ResourceEphemeralStorage && !isHugePages(name) {
			v.invalid(path, name, "must be cpu, memory, ephemeral-storage or hugepages-<size>, or have a domain, such as "+
				"example.com/gpu")
		}
	} else if !isNativeResource(name) && !isExtendedResource(name) {
		v.invalid(path, name, "must be shorter and not begin with 'requests.'")
	}
}

// isExtendedResource reports whether a resource is not defined by Kubernetes.
// Its name must be valid in a quota as well, where it gets a prefix.
func isExtendedResource(name v1.ResourceName) bool {
	return !isNativeResource(name) && !strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix) &&
		len(utilvalidation.IsQualifiedName(v1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// podResources validates spec.resources, the resources of the pod as a whole.
func (v *validator) podResources(path *field.Path) {
	r := v.spec.Resources
	if r == nil {
		return
	}
	if v.spec.OS != nil && v.spec.OS.Name == v1.Windows {
		v.forbidden(path, "a Windows pod has no pod-level resources; remove the field")
		return
	}
	if r.Claims != nil {
		v.forbidden(path.Child("claims"), "resource claims belong to a container; remove the field")
	}
	v.resources(path, r, v.podResourceName)
	v.claimRefs(path.Child("claims"), r.Claims)
	v.podLimitsFitContainers(path, r)
}

func (v *validator) podResourceName(path *field.Path, name v1.ResourceName) {
	if messages := utilvalidation.IsQualifiedName(string(name)); len(messages) > 0 {
		v.rules(path, name, messages)
	} else if !isPodLevelResource(name) {
		v.add(field.NotSupported(path, name,
			[]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceHugePagesPrefix}))
	}
}

// podLimitsFitContainers checks that the pod allows what its containers
// request: the sum of the requests, the sum of hugepage limits, and each other
// limit.
func (v *validator) podLimitsFitContainers(path *field.Path, r *v1.ResourceRequirements) {
	for name, total := range sortedMap(podinfo.ContainersTotal(v.spec, requestsOf)) {
		if request, ok := r.Requests[name]; ok && total.Cmp(request) > 0 {
			v.invalid(path.Child("requests").Key(string(name)), request.String(),
				"must be at least the sum of the containers' requests, "+total.String())
		}
	}
	for name, total := range sortedMap(podinfo.ContainersTotal(v.spec, limitsOf)) {
		if limit, ok := r.Limits[name]; ok && isHugePages(name) && total.Cmp(limit) > 0 {
			v.invalid(path.Child("limits").Key(string(name)), limit.String(),
				"must be at least the sum of the containers' limits, "+total.String())
		}
	}
	for i := range v.spec.Containers {
		for name, quantity := range sortedMap(v.spec.Containers[i].Resources.Limits) {
			if limit, ok := r.Limits[name]; ok && quantity.Cmp(limit) > 0 {
				v.invalid(field.NewPath("spec", "containers").Index(i).Child("resources", "limits").Key(string(name)),
					quantity.String(), "must be at most the pod's limit, "+limit.String())
			}
		}
	}
}

// podClaims validates spec.resourceClaims.
func (v *validator) podClaims(path *field.Path) {
	_, mirror := v.meta.Annotations[podinfo.AnnotationMirror]
	for i, claim := range v.spec.ResourceClaims {
		if claim.Name != "" {
			v.claims = append(v.claims, claim.Name)
		}
		if mirror {
			v.forbidden(path.Index(i), "a static pod cannot have resource claims; remove the field")
			continue
		}
		v.podClaim(path.Index(i), &claim)
	}
}

func (v *validator) podClaim(path *field.Path, claim *v1.PodResourceClaim) {
	const one = "must have one of resourceClaimName, resourceClaimTemplateName"
	if v.requireSet(path.Child("name"), claim.Name, "must be the name by which containers refer to the claim") {
		if slices.Contains(v.claims[:len(v.claims)-1], claim.Name) {
			v.duplicate(path.Child("name"), claim.Name, "resource claims need unique names")
		} else {
			v.dnsLabel(path.Child("name"), claim.Name)
		}
	}
	if (claim.ResourceClaimName == nil) == (claim.ResourceClaimTemplateName == nil) {
		v.invalid(path, claim.Name, one)
	}
	if name := claim.ResourceClaimName; name != nil {
		v.dnsSubdomain(path.Child("resourceClaimName"), *name)
	}
	if name := claim.ResourceClaimTemplateName; name != nil {
		v.dnsSubdomain(path.Child("resourceClaimTemplateName"), *name)
	}
}

// claimRefs validates a container's references to the pod's claims. A claim as
// a whole overlaps with a request of it.
func (v *validator) claimRefs(path *field.Path, claims []v1.ResourceClaim) {
	const once = "each claim, or each request of a claim, can occur only once"
	seen := map[string]bool{}
	for i, claim := range claims {
		at := path.Index(i)
		if !v.requireSet(at, claim.Name, "must be the name of one of spec.resourceClaims") {
			continue
		}
		key, taken := claim.Name, seen[claim.Name]
		if claim.Request != "" {
			key += "/" + claim.Request
			if !taken {
				v.dnsLabel(at.Child("request"), claim.Request)
			}
		} else {
			for other := range seen {
				name, _, _ := strings.Cut(other, "/")
				taken = taken || name == claim.Name
			}
		}
		if taken || seen[key] {
			v.duplicate(at, claim.Name, once)
		}
		seen[key] = true
		if !slices.Contains(v.claims, claim.Name) {
			v.notFound(at, claim.Name, "must be the name of one of spec.resourceClaims")
		}
	}
}
