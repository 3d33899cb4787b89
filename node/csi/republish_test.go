package csi

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
)

// entry is the last entry of a map with one, in a request.
func entry(request map[int]string, field int) string {
	pair := fieldsOf([]byte(request[field]))
	return pair[1] + "=" + pair[2]
}

// A driver gets what the controller says that has attached the volume, and what it wants to know of the pod only
// when it publishes the volume.
func TestContextOfVolume(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	v.Context = map[string]string{"a": "volume"}
	prepared := errors.New("the volume is not attached yet")
	v.Prepare = func() error {
		v.AttachContext, v.PodContext = map[string]string{"device": "sdb"}, map[string]string{"a": "pod"}
		return prepared
	}
	_, err := h.Publish(t.Context(), v)
	mustContain(t, err, "not attached yet")
	if got := h.called(); got != "" {
		t.Errorf("called: %s", got)
	}
	h.mustBeClean()
	prepared = nil
	h.mustPublish(v)
	stage, publish := h.requests["NodeStageVolume"], h.requests["NodePublishVolume"]
	for _, got := range []struct{ got, want string }{
		{entry(stage, 2), "device=sdb"}, {entry(stage, 6), "a=volume"}, {entry(publish, 2), "device=sdb"}, {entry(publish, 8), "a=pod"},
	} {
		if got.got != got.want {
			t.Errorf("%s, want %s", got.got, got.want)
		}
	}
	// A volume that is published needs the cluster for nothing.
	prepared = errors.New("the API server is away")
	h.mustPublish(v)
	h.mustUnpublish("one")
	h.mustBeClean()
}

// A volume is published again when that is due, and stays published after an error.
func TestRepublish(t *testing.T) {
	h := newHarness(t)
	h.republish = time.Hour
	h.start()
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	v.Republish = true
	owned := 0
	v.Own = func(string) error { owned++; return nil }
	republish := func() error { return h.Republish(t.Context(), v) }
	if err := republish(); err != nil || h.called() != "" {
		t.Errorf("a volume that is not published: %v", err)
	}
	h.mustPublish(v)
	if err := republish(); err != nil || h.called() != "Stage v, Publish v" {
		t.Errorf("not due: %v", err)
	}

	// A restart forgets when it is due.
	h.republish = time.Nanosecond
	h.start()
	path := h.mustPublish(v)
	if err := republish(); err != nil || h.called() != "" {
		t.Errorf("before the driver has registered: %v", err)
	}
	h.register("a.example.com")
	<-h.Changed()
	if got := h.TakeChanged(); !slices.Equal(got, []types.UID{"one"}) {
		t.Errorf("notified: %v", got)
	}
	v.Prepare = func() error { return errors.New("no token yet") }
	mustContain(t, republish(), "no token yet")
	v.Prepare = nil
	owned = 0
	if err := republish(); err != nil || h.called() != "Publish v" || owned != 1 {
		t.Errorf("due: %v, owned %d times", err, owned)
	}
	<-h.Changed()
	if got := h.TakeChanged(); !slices.Equal(got, []types.UID{"one"}) {
		t.Errorf("notified: %v", got)
	}
	h.fail["NodePublishVolume"] = status.Error(codes.Internal, "no token")
	mustContain(t, republish(), "NodePublishVolume failed", "no token")
	<-h.Changed() // it is tried again
	if got := h.mustPublish(v); got != path {
		t.Errorf("published at %s", got)
	}
	v.Prepare = func() error { return errors.New("no token was issued") }
	mustContain(t, republish(), "no token was issued")
	delete(h.fail, "NodePublishVolume")
	h.mustUnpublish("one")
	if got := h.called(); got != "Publish v, Unpublish v, Unstage v" {
		t.Errorf("called: %s", got)
	}
	h.mustBeClean()
}
