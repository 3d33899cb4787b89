package csi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
)

// mustExpand expands a volume, and checks whether the driver was called for that.
func (h *harness) mustExpand(v *csivolume.Volume, bytes int64, want bool) {
	h.t.Helper()
	h.called()
	expanded, err := h.Expand(h.t.Context(), v, bytes)
	if calls := h.called(); err != nil || expanded != want || (calls == "Expand v") != want {
		h.t.Errorf("to %d bytes: %t, %v; called %q", bytes, expanded, err, calls)
	}
}

// A driver expands a volume once for all pods of the node, also over a restart, and a volume that is
// published again has the capacity that is then known.
func TestExpandOnce(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	v, w := volumeOf("a.example.com", "v", "one"), volumeOf("a.example.com", "v", "two")
	v.Capacity, w.Capacity = 100, 100
	if _, err := h.Expand(t.Context(), v, 200); err == nil || !strings.Contains(err.Error(), "is not published") {
		t.Error(err)
	}
	h.mustPublish(v)
	h.mustPublish(w)
	h.mustExpand(v, 100, false)
	h.mustExpand(v, 200, true)
	if got := h.requests["NodeExpandVolume"]; got[2] != h.mustPublish(v) || got[4] == "" {
		t.Errorf("the driver got %v", got)
	}
	// Another node has expanded the volume before, and the claim has its size.
	w.Capacity = 300
	h.mustExpand(w, 200, false)
	h.mustExpand(w, 300, true)
	h.start()
	h.mustPublish(v)
	h.mustExpand(v, 300, false)
	if _, err := h.Expand(t.Context(), v, 400); err == nil || !strings.Contains(err.Error(), "is not registered") {
		t.Errorf("without the driver: %v", err)
	}
	h.register("a.example.com")
	h.mustChange("one")
	h.mustUnpublish("one")
	h.mustUnpublish("two")
	h.mustBeClean()
	h.mustPublish(v)
	h.mustExpand(v, 300, true)
}

// A driver without the capability is not called.
func TestExpandWithoutCapability(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	h.mustPublish(v)
	delete(h.drivers["a.example.com"].capabilities, capabilityExpand)
	h.mustExpand(v, 200, false)
	if h.Drivers()[0].Expands {
		t.Error("it is said to expand volumes")
	}
}

// After a failure the pod is synced when the driver may be called again, and not called before.
func TestExpandBacksOff(t *testing.T) {
	h := newHarness(t)
	h.republish = time.Hour
	h.start()
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	h.mustPublish(v)
	h.called()
	for _, f := range []struct {
		code       codes.Code
		bytes      int64
		infeasible bool
	}{
		{codes.Internal, 1, false}, {codes.Unavailable, 2, false}, {codes.InvalidArgument, 3, true},
		{codes.NotFound, 4, true}, {codes.OutOfRange, 5, true},
	} {
		h.fail["NodeExpandVolume"] = status.Error(f.code, "too large")
		for range 3 {
			_, err := h.Expand(t.Context(), v, f.bytes)
			if err == nil || !strings.Contains(err.Error(), "too large") ||
				errors.Is(err, csivolume.ErrInfeasible) != f.infeasible {
				t.Errorf("%s: %v", f.code, err)
			}
		}
		if got := h.called(); got != "Expand v" {
			t.Errorf("%s: called %s", f.code, got)
		}
	}
	// Another size is another request. A secret that is missing, after whose arrival the pod is synced, delays no call.
	delete(h.fail, "NodeExpandVolume")
	missing := errors.New("no secret")
	v.Secrets.Expand, v.ExpandBlocked = map[string]string{"key": "e"}, missing
	if _, err := h.Expand(t.Context(), v, 6); !errors.Is(err, missing) {
		t.Error(err)
	}
	v.ExpandBlocked = nil
	h.mustExpand(v, 6, true)
	if got := entry(h.requests["NodeExpandVolume"], 6); got != "key=e" {
		t.Errorf("the driver got %s", got)
	}

	h.republish = time.Millisecond
	h.start()
	h.register("a.example.com")
	h.mustPublish(v)
	h.fail["NodeExpandVolume"] = status.Error(codes.Internal, "busy")
	if _, err := h.Expand(t.Context(), v, 7); err == nil {
		t.Error("no error")
	}
	h.mustChange("one")
	delete(h.fail, "NodeExpandVolume")
	h.mustExpand(v, 7, true)
}

// mustChange waits until a pod is to be synced.
func (h *harness) mustChange(pod types.UID) {
	h.t.Helper()
	<-h.Changed()
	if got := h.TakeChanged(); !slices.Contains(got, pod) {
		h.t.Errorf("to be synced: %v", got)
	}
}

// A driver that does not respond delays the sync of a pod for a moment only, and is not called a second time. The pod
// is synced when it has responded.
func TestExpandTakesLong(t *testing.T) {
	for _, failure := range []error{nil, status.Error(codes.Internal, "busy")} {
		h := newHarness(t)
		h.expandWait, h.republish = time.Millisecond, time.Hour
		h.start()
		h.register("a.example.com")
		v := volumeOf("a.example.com", "v", "one")
		h.mustPublish(v)
		response := make(chan struct{})
		h.hang["a.example.com NodeExpandVolume"] = response
		if failure != nil {
			h.fail["NodeExpandVolume"] = failure
		}
		h.TakeChanged()
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			if _, err := h.Expand(ctx, v, 200); !errors.Is(err, csivolume.ErrExpanding) {
				t.Errorf("while the driver does not answer: %v", err)
			}
		}
		cancel() // the sync has ended, and the call goes on
		select {
		case <-h.Changed():
			t.Error("the pod is to be synced before the driver has answered")
		default:
		}
		close(response)
		h.mustChange("one")
		expanded, err := h.Expand(t.Context(), v, 200)
		if expanded != (failure == nil) || (err == nil) != (failure == nil) {
			t.Errorf("%v: %t %v", failure, expanded, err)
		}
		if failure == nil {
			h.mustExpand(v, 200, false)
		}
		h.mustUnpublish("one")
		h.mustBeClean()
	}
}
