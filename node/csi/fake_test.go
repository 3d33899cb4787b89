package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/plugins"
)

// harness is a node with drivers whose mounts are in memory, and a manager that can be killed at each
// write and at each call of a driver.
type harness struct {
	t *testing.T
	// dir has the volumes and the state; boot is the ID of the boot.
	dir, boot string
	*Manager

	mu sync.Mutex
	// mounted are the mount points, with the volume.
	mounted map[string]string
	calls   []string
	// points counts writes and calls; at killAt the manager is dead and changes nothing any more.
	points, killAt int
	dead           bool
	// fail has the errors of methods, hang those that wait until the channel is closed.
	fail map[string]error
	hang map[string]chan struct{}
	// leaves are methods after which the mount is left.
	leaves map[string]bool
	// full: the disk takes no file. writes counts those that it took.
	full   bool
	writes int
	// unmountErr is the error of unmounting without the driver.
	unmountErr error
	usage      []byte
	// requests are the last ones of each method; republish and expandWait are the manager's options.
	requests              map[string]map[int]string
	republish, expandWait time.Duration
	// wrongDevice: the driver places a file where a block device is to be.
	wrongDevice bool
}

// killed is the panic of a manager that is killed.
type killed struct{}

func newHarness(t *testing.T) *harness {
	h := &harness{t: t, dir: t.TempDir(), boot: "first", mounted: map[string]string{}, fail: map[string]error{},
		hang: map[string]chan struct{}{}, leaves: map[string]bool{}, requests: map[string]map[int]string{}}
	h.start()
	return h
}

// start starts a manager with the state on the disk.
func (h *harness) start() {
	h.dead, h.killAt = false, 0
	h.Manager = New(Options{
		Dir: h.dir, Registry: filepath.Join(h.dir, "plugins_registry"), File: h.file(), BootID: h.boot,
		Republish: h.republish, ExpandWait: h.expandWait,
		Mounts: h.mounts, Unmount: h.unmount, Disk: statefile.Disk{Operations: harnessDisk{h: h}},
	})
}

func (h *harness) file() string { return filepath.Join(h.dir, "csi-volumes.json") }

// register registers a driver that the harness serves.
func (h *harness) register(name string) (deregister func()) {
	h.t.Helper()
	// The path of a socket is short.
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		h.t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		h.t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			var request []byte
			if err := stream.RecvMsg(&request); err != nil {
				return err
			}
			full, _ := grpc.MethodFromServerStream(stream)
			response, err := h.serve(name, path.Base(full), fieldsOf(request))
			if err != nil {
				return err
			}
			return stream.SendMsg(&response)
		}))
	go func() { _ = server.Serve(listener) }()
	h.t.Cleanup(func() {
		server.Stop()
		_ = os.RemoveAll(dir)
	})
	deregister, err = h.Register(h.t.Context(), plugins.Plugin{Name: name, Endpoint: socket, Versions: []string{"1.0.0"}})
	if err != nil {
		h.t.Fatal(err)
	}
	return deregister
}

// serve serves a call as a driver that mounts at the paths that it gets.
func (h *harness) serve(driver, method string, request map[int]string) ([]byte, error) {
	h.mu.Lock()
	hang := h.hang[driver+" "+method]
	h.mu.Unlock()
	if hang != nil {
		<-hang
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	id := request[1]
	switch method {
	case "NodeGetInfo":
		var f fields
		f.text(1, "node")
		return f, nil
	case "NodeGetCapabilities":
		var f fields
		for _, c := range []capabilityType{capabilityStage, capabilityStats, capabilityExpand, capabilityCondition} {
			var kind, rpc fields
			kind.number(1, uint64(c))
			rpc.bytes(1, kind)
			f.bytes(1, rpc)
		}
		return f, nil
	}
	if h.dead {
		return nil, status.Error(codes.Unavailable, "the test has killed the caller")
	}
	h.requests[method] = request
	h.calls = append(h.calls, fmt.Sprintf("%s %s", strings.TrimSuffix(strings.TrimPrefix(method, "Node"), "Volume"), id))
	if h.point() {
		return nil, status.Error(codes.Unavailable, "killed before the call")
	}
	if err := h.fail[method]; err != nil {
		return nil, err
	}
	response, err := h.act(method, id, request)
	if err == nil && h.point() {
		err = status.Error(codes.Unavailable, "killed after the call")
	}
	return response, err
}

func (h *harness) act(method, id string, request map[int]string) ([]byte, error) {
	switch method {
	case "NodeStageVolume":
		if err := h.recorded(id, request[3]); err != nil {
			return nil, err
		}
		h.mounted[request[3]] = id
	case "NodePublishVolume":
		if staging := request[3]; staging != "" && h.mounted[staging] != id {
			return nil, status.Errorf(codes.FailedPrecondition, "volume %s is not staged", id)
		}
		if err := h.recorded(id, request[4]); err != nil {
			return nil, err
		}
		if _, block := fieldsOf([]byte(request[5]))[1]; block {
			// A driver may make a device node instead of mounting one.
			return nil, h.placeDevice(request[4])
		}
		if err := os.MkdirAll(request[4], 0o755); err != nil {
			return nil, err
		}
		h.mounted[request[4]] = id
	case "NodeUnpublishVolume", "NodeUnstageVolume":
		if method == "NodeUnstageVolume" {
			for point, volume := range h.mounted {
				if volume == id && point != request[2] {
					return nil, status.Errorf(codes.FailedPrecondition, "volume %s is published at %s", id, point)
				}
			}
		}
		if !h.leaves[method] {
			delete(h.mounted, request[2])
		}
	case "NodeGetVolumeStats":
		return h.usage, nil
	}
	return nil, nil
}

func (h *harness) placeDevice(path string) error {
	if h.wrongDevice {
		return os.WriteFile(path, nil, 0o600)
	}
	return unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250)))
}

// recorded returns an error unless a path for a volume is in the state on the disk.
func (h *harness) recorded(id, path string) error {
	s, err := readState(stateFormat.File(h.file(), statefile.Disk{}), h.boot)
	if err != nil {
		return err
	}
	for _, r := range s.Volumes {
		if r.Handle == id && (r.StagingPath == path ||
			slices.ContainsFunc(r.Pods, func(p *podRecord) bool { return p.Called && p.Target == path })) {
			return nil
		}
	}
	h.t.Errorf("the driver is called for %s at %s, which is not on the disk", id, path)
	return status.Error(codes.Internal, "not recorded")
}

// point counts a point, and reports whether the manager is killed there; the caller holds the mutex.
func (h *harness) point() bool {
	h.points++
	h.dead = h.dead || h.points == h.killAt
	return h.dead
}

// harnessDisk is the disk of a harness: each replacement of a file is a point. It syncs nothing.
type harnessDisk struct {
	statefile.OS
	h *harness
}

type unsynced struct{ statefile.Writer }

func (unsynced) Sync() error          { return nil }
func (harnessDisk) Sync(string) error { return nil }

func (d harnessDisk) Create(path string, mode os.FileMode) (statefile.Writer, error) {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	if d.h.full {
		return nil, syscall.ENOSPC
	}
	f, err := d.OS.Create(path, mode)
	return unsynced{f}, err
}

func (d harnessDisk) Rename(from, to string) error {
	d.h.mu.Lock()
	defer d.h.mu.Unlock()
	if d.h.dead {
		panic(killed{})
	}
	d.h.writes++
	if err := d.OS.Rename(from, to); err != nil {
		return err
	}
	if d.h.point() {
		panic(killed{})
	}
	return nil
}

func (h *harness) mounts() (list []*mountinfo.Info, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for point := range h.mounted {
		list = append(list, &mountinfo.Info{Mountpoint: point})
	}
	return list, nil
}

func (h *harness) unmount(path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.unmountErr != nil {
		return h.unmountErr
	}
	delete(h.mounted, path)
	return nil
}

// called returns the calls since the last one, without those of a registration.
func (h *harness) called() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	calls := strings.Join(h.calls, ", ")
	h.calls = nil
	return calls
}

// points of the mounts, sorted.
func (h *harness) mountPoints() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.mounted))
}

// mustBeClean fails the test unless nothing of any volume is left.
func (h *harness) mustBeClean() {
	h.t.Helper()
	if left := h.mountPoints(); len(left) > 0 {
		h.t.Errorf("mounted: %v", left)
	}
	var s state
	data, err := os.ReadFile(h.file())
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil && !os.IsNotExist(err) || len(s.Volumes) > 0 {
		h.t.Errorf("recorded: %s %v", data, err)
	}
	for _, pattern := range []string{"pods/*", "plugins/kubernetes.io/csi/*"} {
		if left, err := filepath.Glob(filepath.Join(h.dir, pattern)); err != nil || len(left) > 0 {
			h.t.Errorf("directories: %v %v", left, err)
		}
	}
}

// volumeOf is a volume of a driver for a pod.
func volumeOf(driver, handle, pod string) *csivolume.Volume {
	return &csivolume.Volume{Driver: driver, Handle: handle, Pod: types.UID(pod), Name: "data",
		AccessMode: v1.ReadWriteOnce}
}

// mustPublish publishes a volume, which is then mounted at the path.
func (h *harness) mustPublish(v *csivolume.Volume) string {
	h.t.Helper()
	path, err := h.Publish(h.t.Context(), v)
	if err != nil {
		h.t.Fatal(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mounted[path] != v.Handle {
		h.t.Fatalf("%q is mounted at %s", h.mounted[path], path)
	}
	return path
}

func (h *harness) mustUnpublish(pods ...string) {
	h.t.Helper()
	for _, uid := range pods {
		if err := h.Unpublish(context.Background(), types.UID(uid)); err != nil {
			h.t.Fatal(err)
		}
	}
}

// mustContain fails the test unless an error contains all words.
func mustContain(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error with %q", words)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v\nwant %q", err, word)
		}
	}
}

// fieldsOf returns the fields of a message that have a length.
func fieldsOf(message []byte) map[int]string {
	found := map[int]string{}
	_ = decodeFields(message, func(number protowire.Number, _ uint64, data []byte) error {
		found[int(number)] = string(data)
		return nil
	})
	return found
}

// rawCodec leaves messages encoded.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = slices.Clone(data)
	return nil
}
