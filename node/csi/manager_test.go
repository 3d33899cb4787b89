package csi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/plugins"
)

// A volume is staged once for all pods, and unstaged after the last one. What is published is left alone.
func TestSharedVolume(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	one, two := volumeOf("a.example.com", "v", "one"), volumeOf("a.example.com", "v", "two")
	path := h.mustPublish(one)
	if want := filepath.Join(h.dir, "pods/one/volumes/kubernetes.io~csi/data/mount"); path != want {
		t.Errorf("published at %s, want %s", path, want)
	}
	h.mustPublish(two)
	h.mustPublish(one)
	h.mustUnpublish("one", "one", "unknown")
	h.mustUnpublish("two")
	if got := h.called(); got != "Stage v, Publish v, Publish v, Unpublish v, Unpublish v, Unstage v" {
		t.Errorf("called: %s", got)
	}
	h.mustBeClean()
}

// A pod waits for an absent driver, and is notified when it registers. A pod that is gone is not. A Secret
// that is missing keeps a volume waiting only if its driver is to be called.
func TestAbsentDriver(t *testing.T) {
	h := newHarness(t)
	v := volumeOf("a.example.com", "v", "one")
	for _, pod := range []types.UID{"one", "two"} {
		waiting := *v
		waiting.Pod = pod
		_, err := h.Publish(t.Context(), &waiting)
		mustContain(t, err, "CSI driver a.example.com is not registered", filepath.Join(h.dir, "plugins_registry"))
	}
	h.Disable(errors.New("a kubelet runs"))
	_, err := h.Publish(t.Context(), v)
	mustContain(t, err, "CSI driver a.example.com is not registered", "drivers cannot register: a kubelet runs")
	h.mustUnpublish("two")
	deregister := h.register("a.example.com")
	<-h.Changed()
	if got := h.TakeChanged(); !slices.Equal(got, []types.UID{"one"}) {
		t.Errorf("notified: %v", got)
	}
	missing := errors.New("Secret a/b not found")
	v.PublishBlocked = missing
	if _, err := h.Publish(t.Context(), v); !errors.Is(err, missing) || h.called() != "" {
		t.Errorf("without its Secret: %v", err)
	}
	v.PublishBlocked = nil
	h.mustPublish(v)
	deregister()
	v.PublishBlocked = missing
	h.mustPublish(v)
	mustContain(t, h.Unpublish(t.Context(), "one"), "NodeUnpublishVolume is still to be called for volume v",
		"is not registered", "reboot the host")
	// A driver that was killed has left the socket of its registrar.
	h.register("a.example.com")
	<-h.Changed()
	h.fail["NodeUnpublishVolume"] = status.Error(codes.Unavailable, "connection refused")
	mustContain(t, h.Unpublish(t.Context(), "one"), "is unreachable at", "connection refused", "reboot the host")
	delete(h.fail, "NodeUnpublishVolume")
	h.register("a.example.com")
	<-h.Changed()
	h.mustUnpublish("one")
	h.mustBeClean()
}

// A driver that hangs delays the pods with its volumes only. The caller can stop to wait for it.
func TestHangingDriver(t *testing.T) {
	h := newHarness(t)
	h.options.LockTimeout = 10 * time.Millisecond
	h.register("hangs.example.com")
	h.register("b.example.com")
	gate := make(chan struct{})
	h.hang["hangs.example.com NodePublishVolume"] = gate
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := h.Publish(ctx, volumeOf("hangs.example.com", "v", "one"))
		ended <- err
	}()
	for h.mountPoints() == nil { // until it is staged
		time.Sleep(time.Millisecond)
	}
	h.mustPublish(volumeOf("b.example.com", "w", "two"))
	h.mustUnpublish("two", "none")
	_, err := h.Publish(t.Context(), volumeOf("hangs.example.com", "v", "three"))
	mustContain(t, err, "CSI driver hangs.example.com has not ended another operation on volume v")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(gate)
	h.mustUnpublish("one", "three")
	h.mustBeClean()
}

// Nothing that a volume contains is deleted: neither through a mount that cannot be removed, nor from a
// directory at which nothing is mounted. A mount that the driver has left is removed.
func TestNothingIsDeleted(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	path := h.mustPublish(volumeOf("a.example.com", "v", "one"))
	content := filepath.Join(path, "content")
	if err := os.WriteFile(content, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.leaves["NodeUnpublishVolume"], h.leaves["NodeUnstageVolume"] = true, true
	h.unmountErr = unix.EBUSY
	mustContain(t, h.Unpublish(t.Context(), "one"), "is still mounted and cannot be unmounted", "fuser -vm "+path)
	h.unmountErr = nil
	mustContain(t, h.Unpublish(t.Context(), "one"), path+" is not empty, although no volume is mounted there")
	if _, err := os.Stat(content); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(content); err != nil {
		t.Fatal(err)
	}
	h.mustUnpublish("one")
	h.mustBeClean()
}

// A driver that has lost what it had staged is asked to stage it again, and a volume that it does not know any
// more counts as unpublished if nothing is mounted.
func TestForgetfulDriver(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	h.mu.Lock()
	clear(h.mounted)
	h.mu.Unlock()
	_, err := h.Publish(t.Context(), volumeOf("a.example.com", "v", "one"))
	mustContain(t, err, "NodePublishVolume failed: FailedPrecondition", "look at its pod's log")
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	h.fail["NodeUnpublishVolume"] = status.Error(codes.NotFound, "no such volume")
	mustContain(t, h.Unpublish(t.Context(), "one"), "NotFound: no such volume", "is still mounted",
		"umount "+h.dir+"/pods/one/")
	h.mu.Lock()
	clear(h.mounted)
	h.mu.Unlock()
	h.mustUnpublish("one")
	h.mustBeClean()
}

// A driver that fails again and again does not let the state be written again and again.
func TestFailingDriverWritesOnce(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	for method, want := range map[string]int{"NodeStageVolume": 1, "NodePublishVolume": 2} {
		volume := volumeOf("a.example.com", method, "one")
		volume.Name = strings.ToLower(method)
		h.fail = map[string]error{method: status.Error(codes.Internal, "no disk")}
		h.writes = 0
		for range 3 {
			_, err := h.Publish(t.Context(), volume)
			mustContain(t, err, method+" failed: Internal: no disk")
		}
		if h.writes != want {
			t.Errorf("%s fails: written %d times, want %d", method, h.writes, want)
		}
	}
	h.mustUnpublish("one")
	h.mustBeClean()
}

// A driver in a container without mount propagation has published nothing on the host.
func TestMountThatDoesNotPropagate(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	mounts := h.options.Mounts
	h.options.Mounts = func() ([]*mountinfo.Info, error) { return nil, nil }
	_, err := h.Publish(t.Context(), volumeOf("a.example.com", "v", "one"))
	mustContain(t, err, "nothing is mounted at", "mountPropagation: Bidirectional")
	h.options.Mounts = mounts
	h.mustUnpublish("one")
	h.mustBeClean()
}

// The directories of the pods and of the plugins may be links to another disk, which the mount table does not have.
func TestLinkedDirectories(t *testing.T) {
	h := newHarness(t)
	disk := t.TempDir()
	for _, name := range []string{"pods", "plugins"} {
		if err := errors.Join(os.Mkdir(filepath.Join(disk, name), 0o755),
			os.Symlink(filepath.Join(disk, name), filepath.Join(h.dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	mounts := h.options.Mounts
	h.options.Mounts = func() ([]*mountinfo.Info, error) {
		points, err := mounts()
		for _, p := range points {
			p.Mountpoint = strings.Replace(p.Mountpoint, h.dir, disk, 1)
		}
		return points, err
	}
	h.register("a.example.com")
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	h.called()
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	if calls := h.called(); calls != "" {
		t.Errorf("the driver is called again: %s", calls)
	}
	h.mustUnpublish("one")
	h.mustBeClean()
}

// What podstead did not publish is reported once, and left alone.
func TestUnknownMounts(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	path := h.mustPublish(volumeOf("a.example.com", "v", "one"))
	unknown := []string{filepath.Join(h.dir, "pods/x/volumes/kubernetes.io~csi/data/mount"),
		filepath.Join(h.dir, "plugins/kubernetes.io/csi/a/b/globalmount")}
	h.mounted[unknown[0]], h.mounted[unknown[1]] = "x", "x"
	h.mounted[filepath.Join(h.dir, "pods/x/volumes/kubernetes.io~empty-dir/data")] = "y"
	h.start()
	var log bytes.Buffer
	h.log = slog.New(slog.NewTextHandler(&log, nil))
	h.register("a.example.com")
	h.mustUnpublish("one", "one")
	lines := log.String()
	if strings.Count(lines, "that podstead did not publish") != 2 || !strings.Contains(lines, unknown[0]) ||
		!strings.Contains(lines, unknown[1]) || strings.Contains(lines, path) {
		t.Errorf("logged:\n%s", lines)
	}
	if left := h.mountPoints(); len(left) != 3 {
		t.Errorf("mounted: %v", left)
	}
}

// A state that cannot be read stops volumes, and no pod that has none.
func TestDamagedState(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	path := h.mustPublish(volumeOf("a.example.com", "v", "one"))
	saved, err := os.ReadFile(h.file())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{", `{"version":2}`, `{"version":1,"volumes":[{}]}`, `{"version":1,"volumes":[null]}`,
		`{"version":1,"volumes":[{"driver":"a","handle":"b","pods":[{"uid":"c"}]}]}`} {
		if err := os.WriteFile(h.file(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.register("a.example.com")
		_, err := h.Publish(t.Context(), volumeOf("a.example.com", "w", "two"))
		mustContain(t, err, "failed to read which CSI volumes are in use", h.file())
		mustContain(t, h.Unpublish(t.Context(), "one"), "failed to read which CSI volumes are in use")
		h.mustUnpublish("three")
		if _, err := h.Usage(t.Context(), path); err == nil {
			t.Error("the usage of a volume of a driver is known")
		}
		if u, err := h.Usage(t.Context(), "/srv/claim"); u != nil || err != nil {
			t.Errorf("the usage of a volume without a driver: %v, %v", u, err)
		}
	}
	if err := os.WriteFile(h.file(), saved, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.mustPublish(volumeOf("a.example.com", "v", "one")); got != path {
		t.Errorf("published at %s, before at %s", got, path)
	}
	// A reboot unmounts all: nothing depends on the file any more, unless it only cannot be read.
	h.mounted, h.boot = map[string]string{}, "second"
	if err := errors.Join(os.Remove(h.file()), os.Symlink(h.file(), h.file())); err != nil {
		t.Fatal(err)
	}
	h.start()
	h.register("a.example.com")
	_, err = h.Publish(t.Context(), volumeOf("a.example.com", "v", "one"))
	mustContain(t, err, "failed to read which CSI volumes are in use")
	if err := errors.Join(os.Remove(h.file()), os.WriteFile(h.file(), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	if data, err := os.ReadFile(h.file() + statefile.SuffixDamaged); err != nil || string(data) != "{" {
		t.Errorf("moved aside: %q, %v", data, err)
	}
	h.mustUnpublish("one")
	h.mustBeClean()
}

// Names that are not valid never become paths.
func TestInvalidNames(t *testing.T) {
	h := newHarness(t)
	for _, v := range []*csivolume.Volume{
		volumeOf("../a", "v", "one"), volumeOf("a..b", "v", "one"), volumeOf("a", "", "one"), volumeOf("a", "v", ".."),
		volumeOf("a", "v", ""),
		{Driver: "a", Handle: "v", Pod: "one", Name: ".."},
	} {
		_, err := h.Publish(t.Context(), v)
		mustContain(t, err, "invalid name of a CSI volume")
	}
	for name, versions := range map[string][]string{"../a": {"1.0.0"}, "a": {"0.3.0"}, "b": nil} {
		if _, err := h.Register(t.Context(), plugins.Plugin{Name: name, Endpoint: "/s", Versions: versions}); err == nil {
			t.Errorf("%s with %v was registered", name, versions)
		}
	}
}

// A driver reports usage and condition of a volume.
func TestUsage(t *testing.T) {
	h := newHarness(t)
	h.register("a.example.com")
	v := volumeOf("a.example.com", "v", "one")
	path := h.mustPublish(v)
	h.called()
	amount := func(available, total, used, unit uint64) fields {
		var f fields
		for i, n := range []uint64{available, total, used, unit} {
			f.number(protowire.Number(i+1), n)
		}
		return f
	}
	var condition, response fields
	condition.boolean(1, true)
	condition.text(2, "disk is failing")
	response.bytes(1, amount(1, 3, 2, unitBytes))
	response.bytes(1, amount(10, 30, 20, unitInodes))
	response.bytes(2, condition)
	h.usage = response
	got, err := h.Usage(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	got.At = time.Time{}
	if want := (usage.Filesystem{Available: 1, Capacity: 3, Used: 2, InodesFree: 10, Inodes: 30,
		InodesUsed: 20}); got.Filesystem != want ||
		*got.Condition != (usage.VolumeCondition{Abnormal: true, Message: "disk is failing"}) {
		t.Errorf("%+v, condition %+v", got, got.Condition)
	}
	if got, err := h.Usage(t.Context(), path+"x"); got != nil || err != nil {
		t.Errorf("of no volume: %+v %v", got, err)
	}
	h.usage = []byte{0x0a, 0xff}
	_, err = h.Usage(t.Context(), path)
	mustContain(t, err, "failed to read the usage of volume v")
}

// What drivers mount exists before the first volume, and stays after the last.
func TestDirectoriesOfDrivers(t *testing.T) {
	h := newHarness(t)
	if err := h.MakeDirectories(); err != nil {
		t.Fatal(err)
	}
	h.register("a.example.com")
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	h.mustUnpublish("one")
	for _, name := range []string{"pods", "plugins"} {
		if info, err := os.Stat(filepath.Join(h.dir, name)); err != nil || !info.IsDir() || info.Mode().Perm() != 0o750 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
