package cluster

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
)

// A ResourceClaim is requested by its name, and what a node reads of it is that of the API's type.
func TestResourceClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		if _, err := r.o.ResourceClaim(t.Context(), "default", "gpu"); err == nil ||
			!strings.Contains(err.Error(), "not connected") {
			t.Errorf("before the connection: %v", err)
		}
		r.start()
		defer r.end()
		synctest.Wait()
		if _, err := r.o.ResourceClaim(t.Context(), "default", "gpu"); !apierrors.IsNotFound(err) {
			t.Errorf("a claim that does not exist: %v", err)
		}
		yes := true
		claim := &resourcev1.ResourceClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gpu",
				OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", UID: "owner", Controller: &yes}}},
			Status: resourcev1.ResourceClaimStatus{
				Allocation: &resourcev1.AllocationResult{
					Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
						{Request: "a", Driver: "gpu.example.com"}, {Request: "b", Driver: "nic.example.com"},
						{Request: "c", Driver: "gpu.example.com", AdminAccess: &yes},
					}}},
				ReservedFor: []resourcev1.ResourceClaimConsumerReference{
					{Resource: "pods", Name: "one", UID: "u1"}, {APIGroup: "example.com", Resource: "pods", UID: "foreign"},
					{Resource: "pods", Name: "two", UID: "u2"},
				},
			},
		}
		r.replace(t, claim)
		got, err := r.o.ResourceClaim(t.Context(), "default", "gpu")
		if err != nil || got.UID == "" {
			t.Fatalf("got %+v, %v", got, err)
		}
		want := &device.ResourceClaim{
			Namespace: "default", Name: "gpu", UID: got.UID, Owner: "owner", Allocated: true,
			Drivers: []string{"gpu.example.com", "nic.example.com"}, Pods: []types.UID{"u1", "u2"},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		claim.Name, claim.Status = "pending", resourcev1.ResourceClaimStatus{}
		r.replace(t, claim)
		if got, err = r.o.ResourceClaim(t.Context(), "default", "pending"); err != nil || got.Allocated || len(got.Pods) > 0 {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// What is deleted are the ResourceSlices of this node, except those of some drivers. A cluster without the
// API has none.
func TestDeleteResourceSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		if err := r.o.DeleteResourceSlices(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "not connected") {
			t.Errorf("before the connection: %v", err)
		}
		r.start()
		defer r.end()
		synctest.Wait()
		var selectors []string
		var response error
		r.mu.Lock()
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.verb != "DELETE" || q.resource != "resourceslices" || q.name != "" {
				return nil, nil
			}
			selectors = append(selectors, q.selector)
			return &metav1.Status{Status: metav1.StatusSuccess}, response
		}
		r.mu.Unlock()
		for _, except := range [][]string{nil, {"a.example.com", "b.example.com"}} {
			if err := r.o.DeleteResourceSlices(t.Context(), except); err != nil {
				t.Error(err)
			}
		}
		want := []string{"spec.nodeName=edge", "spec.nodeName=edge,spec.driver!=a.example.com,spec.driver!=b.example.com"}
		r.mu.Lock()
		if !reflect.DeepEqual(selectors, want) {
			t.Errorf("selected %q, want %q", selectors, want)
		}
		response = apierrors.NewNotFound(schema.GroupResource{Resource: "resourceslices"}, "")
		r.mu.Unlock()
		if err := r.o.DeleteResourceSlices(t.Context(), nil); err != nil {
			t.Errorf("without the API: %v", err)
		}
		r.mu.Lock()
		response = apierrors.NewForbidden(schema.GroupResource{Resource: "resourceslices"}, "", nil)
		r.mu.Unlock()
		if err := r.o.DeleteResourceSlices(t.Context(), nil); !apierrors.IsForbidden(err) {
			t.Errorf("without permission: %v", err)
		}
	})
}
