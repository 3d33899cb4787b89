package device

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ResourceClaim is what a node reads of a ResourceClaim of the API.
type ResourceClaim struct {
	Namespace, Name string
	UID             types.UID
	// Owner is the UID of the controller that owns the claim: the pod, for a claim from a template.
	Owner types.UID
	// Allocated reports that a scheduler has allocated devices to the claim. Drivers are the DRA drivers
	// of these devices, each once.
	Allocated bool
	Drivers   []string
	// Pods are the UIDs of the pods for which the claim is reserved.
	Pods []types.UID
}

// ResourceClaims reads the ResourceClaims of a cluster. It may wait for the API server.
type ResourceClaims interface {
	ResourceClaim(ctx context.Context, namespace, name string) (*ResourceClaim, error)
}

// PodClaim is a ResourceClaim that a pod refers to.
type PodClaim struct {
	// Name is that of the ResourceClaim.
	Name string
	// Owned reports that the pod must own the claim, because it is from a template.
	Owned bool
	// ref is the name in spec.resourceClaims, empty for the claim of extended resources.
	ref string
}

// HasClaims reports whether a pod refers to resource claims.
func HasClaims(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// PodClaims returns the ResourceClaims that a pod refers to. A template for which no claim is needed
// is left out. The error names a claim that was not created yet.
func PodClaims(pod *v1.Pod) (claims []PodClaim, err error) {
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		if c.ResourceClaimName != nil {
			claims = append(claims, PodClaim{Name: *c.ResourceClaimName, ref: c.Name})
			continue
		}
		at := slices.IndexFunc(pod.Status.ResourceClaimStatuses,
			func(s v1.PodResourceClaimStatus) bool { return s.Name == c.Name })
		if at < 0 {
			return nil, fmt.Errorf("the ResourceClaim for the resource claim %q of the pod was not created yet from its "+
				"template; check the resourceclaim controller of the cluster", c.Name)
		}
		if name := pod.Status.ResourceClaimStatuses[at].ResourceClaimName; name != nil {
			claims = append(claims, PodClaim{Name: *name, Owned: true, ref: c.Name})
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil {
		claims = append(claims, PodClaim{Name: extended.ResourceClaimName})
	}
	return claims, nil
}

// ContainerClaim is a part of a ResourceClaim that a container has.
type ContainerClaim struct {
	Name string
	// Request is the request of the claim whose devices the container gets; empty for all.
	Request string
}

// ContainerClaims returns the claims that a container has.
func ContainerClaims(pod *v1.Pod, c *v1.Container) (list []ContainerClaim, err error) {
	extended := pod.Status.ExtendedResourceClaimStatus
	if len(c.Resources.Claims) == 0 && extended == nil {
		return nil, nil
	}
	claims, err := PodClaims(pod)
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		for _, r := range c.Resources.Claims {
			if claim.ref != "" && r.Name == claim.ref {
				list = append(list, ContainerClaim{claim.Name, r.Request})
			}
		}
	}
	if extended == nil {
		return list, nil
	}
	for _, m := range extended.RequestMappings {
		quantity, requested := c.Resources.Requests[v1.ResourceName(m.ResourceName)]
		if m.ContainerName == c.Name && requested && !quantity.IsZero() {
			list = append(list, ContainerClaim{extended.ResourceClaimName, m.RequestName})
		}
	}
	return list, nil
}

// Prepared is a device that a container has from a ResourceClaim, as its DRA driver prepared it. Share is
// empty for a device that is not shared, and CDI are names of CDI devices.
type Prepared struct {
	Namespace, Claim, Driver, Pool, Device, Share string
	CDI                                           []string
}
