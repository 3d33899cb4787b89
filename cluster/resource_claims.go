package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
)

// claimTimeout limits the request for a ResourceClaim.
const claimTimeout = 10 * time.Second

// resourceClaim is the part of a ResourceClaim (resource.k8s.io/v1) that a node reads. The types of the
// API would add its whole group to the program.
type resourceClaim struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Allocation *struct {
			Devices struct {
				Results []struct {
					Driver string `json:"driver"`
				} `json:"results"`
			} `json:"devices"`
		} `json:"allocation"`
		ReservedFor []struct {
			APIGroup string    `json:"apiGroup"`
			Resource string    `json:"resource"`
			UID      types.UID `json:"uid"`
		} `json:"reservedFor"`
	} `json:"status"`
}

// ResourceClaim requests a ResourceClaim. It waits for the API server: the Node authorizer grants a
// node to get the claims of its pods, and neither to list nor to watch them.
func (o *Objects) ResourceClaim(ctx context.Context, namespace, name string) (*device.ResourceClaim, error) {
	o.mu.Lock()
	a := o.adapter
	o.mu.Unlock()
	if a == nil {
		return nil, errors.New("the node has not connected to the API server yet")
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	data, err := a.client.core.Get().AbsPath("/apis/resource.k8s.io/v1/namespaces", namespace, "resourceclaims", name).
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	var found resourceClaim
	if err := json.Unmarshal(data, &found); err != nil {
		return nil, fmt.Errorf("the API server sent something else than a ResourceClaim: %w", err)
	}
	return found.plain(), nil
}

// DeleteResourceSlices deletes the ResourceSlices of this node, except those of some drivers.
func (o *Objects) DeleteResourceSlices(ctx context.Context, except []string) error {
	o.mu.Lock()
	a := o.adapter
	o.mu.Unlock()
	if a == nil {
		return errors.New("the node has not connected to the API server yet")
	}
	select {
	case <-a.drain.done:
		return nil // the node has left the cluster
	default:
	}
	// The Node authorizer grants it for spec.nodeName only.
	selected := []fields.Selector{fields.OneTermEqualSelector("spec.nodeName", a.name)}
	for _, driver := range except {
		selected = append(selected, fields.OneTermNotEqualSelector("spec.driver", driver))
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	err := a.client.core.Delete().AbsPath("/apis/resource.k8s.io/v1/resourceslices").
		Param("fieldSelector", fields.AndSelectors(selected...).String()).SetHeader("Accept",
		"application/json").Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil // the cluster serves no such API
	}
	return err
}

func (c *resourceClaim) plain() *device.ResourceClaim {
	claim := &device.ResourceClaim{Namespace: c.Metadata.Namespace, Name: c.Metadata.Name, UID: c.Metadata.UID}
	if owner := metav1.GetControllerOfNoCopy(&c.Metadata); owner != nil {
		claim.Owner = owner.UID
	}
	if allocation := c.Status.Allocation; allocation != nil {
		claim.Allocated = true
		for _, r := range allocation.Devices.Results {
			if !slices.Contains(claim.Drivers, r.Driver) {
				claim.Drivers = append(claim.Drivers, r.Driver)
			}
		}
	}
	for _, r := range c.Status.ReservedFor {
		if r.APIGroup == "" && r.Resource == "pods" {
			claim.Pods = append(claim.Pods, r.UID)
		}
	}
	return claim
}
