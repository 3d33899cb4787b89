package csi

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/fsgroup"
)

// entry is the last entry of a map with one, in a request.
func entry(request map[int]string, field int) string {
	pair := fieldsOf([]byte(request[field]))
	return pair[1] + "=" + pair[2]
}

// testGroup returns a group other than root's, where the test may set one.
func testGroup() int64 {
	if os.Geteuid() == 0 {
		return 2345
	}
	return int64(os.Getegid())
}

// A driver gets what the controller reports that has attached the volume, and what it wants to know of the pod only
// when it publishes the volume.
func TestContextOfVolume(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	v.Context = map[string]string{"a": "volume"}
	v.PublishBlocked = errors.New("the volume is not attached yet")
	_, err := h.Publish(t.Context(), v)
	mustContain(t, err, "not attached yet")
	if got := h.called(); got != "" {
		t.Errorf("called: %s", got)
	}
	h.mustBeClean()
	v.PublishBlocked, v.AttachContext, v.PodContext = nil, map[string]string{"device": "sdb"},
		map[string]string{"a": "pod"}
	h.mustPublish(v)
	stage, publish := h.requests["NodeStageVolume"], h.requests["NodePublishVolume"]
	for _, got := range []struct{ got, want string }{
		{entry(stage, 2), "device=sdb"}, {entry(stage, 6), "a=volume"}, {entry(publish, 2), "device=sdb"},
		{entry(publish, 8), "a=pod"},
	} {
		if got.got != got.want {
			t.Errorf("%s, want %s", got.got, got.want)
		}
	}
	// A volume that is published needs the cluster for nothing.
	v.PublishBlocked = errors.New("the API server is away")
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
	gid := testGroup()
	v.Group, v.SetGroup = fsgroup.Group{GID: &gid}, true
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
	v.PublishBlocked = errors.New("no token yet")
	mustContain(t, republish(), "no token yet")
	v.PublishBlocked = nil
	// The driver may have made files.
	made := filepath.Join(path, "token")
	if err := os.WriteFile(made, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := republish(); err != nil || h.called() != "Publish v" {
		t.Errorf("due: %v", err)
	}
	if info, err := os.Stat(made); err != nil || info.Mode().Perm() != 0o660 ||
		int64(info.Sys().(*syscall.Stat_t).Gid) != gid {
		t.Errorf("a file of the driver: %+v, %v", info, err)
	}
	if err := os.Remove(made); err != nil { // the mount ends with it
		t.Fatal(err)
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
	v.PublishBlocked = errors.New("no token was issued")
	mustContain(t, republish(), "no token was issued")
	delete(h.fail, "NodePublishVolume")
	h.mustUnpublish("one")
	if got := h.called(); got != "Publish v, Unpublish v, Unstage v" {
		t.Errorf("called: %s", got)
	}
	h.mustBeClean()
}
