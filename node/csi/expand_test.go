package csi

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	if got := h.TakeChanged(); len(got) != 1 {
		t.Errorf("to be synced with the driver: %v", got)
	}
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
		{codes.Internal, 1, false}, {codes.Unavailable, 2, false}, {codes.InvalidArgument, 3, true}, {codes.NotFound, 4, true}, {codes.OutOfRange, 5, true},
	} {
		h.fail["NodeExpandVolume"] = status.Error(f.code, "too large")
		for range 3 {
			_, err := h.Expand(t.Context(), v, f.bytes)
			if err == nil || !strings.Contains(err.Error(), "too large") || errors.Is(err, csivolume.ErrInfeasible) != f.infeasible {
				t.Errorf("%s: %v", f.code, err)
			}
		}
		if got := h.called(); got != "Expand v" {
			t.Errorf("%s: called %s", f.code, got)
		}
	}
	// A call that podstead has ended is no failure.
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := h.Expand(ended, v, 6); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// Another size is another request. A secret that is missing, after whose arrival the pod is synced, delays no call.
	delete(h.fail, "NodeExpandVolume")
	missing := errors.New("no secret")
	v.ExpandSecret = func() (map[string]string, error) { return map[string]string{"key": "e"}, missing }
	if _, err := h.Expand(t.Context(), v, 6); !errors.Is(err, missing) {
		t.Error(err)
	}
	missing = nil
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
	<-h.Changed()
	if got := h.TakeChanged(); len(got) != 1 || got[0] != "one" {
		t.Errorf("to be synced: %v", got)
	}
	delete(h.fail, "NodeExpandVolume")
	h.mustExpand(v, 7, true)
}
