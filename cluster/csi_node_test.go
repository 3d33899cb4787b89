package cluster

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/wakeup"
)

// storageFake has the drivers and volumes of a test.
type storageFake struct {
	mu      sync.Mutex
	drivers []csivolume.NodeDriver
	used    []csivolume.ID
	err     error
	changed wakeup.Signal
}

func (s *storageFake) set(change func()) {
	s.mu.Lock()
	change()
	s.mu.Unlock()
	s.changed.Notify()
}

func (s *storageFake) Drivers() []csivolume.NodeDriver {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.drivers)
}

func (s *storageFake) InUse() ([]csivolume.ID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used, s.err
}

func (s *storageFake) Subscribe() (<-chan struct{}, func()) { return s.changed.C(), func() {} }

// csiNodeOf returns the names and node IDs in the CSINode object.
func (r *clusterHarness) csiNodeOf() string {
	node := &storagev1.CSINode{}
	if !r.get(r.t, "csinodes", "", "edge", node) {
		return "no object"
	}
	var all []string
	for _, d := range node.Spec.Drivers {
		text := d.Name + "=" + d.NodeID
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			text += "(" + string(rune('0'+*d.Allocatable.Count)) + ")"
		}
		all = append(all, text+strings.Join(d.TopologyKeys, "+"))
	}
	return strings.Join(all, " ")
}

// The CSINode object lists the registered drivers, with the Node as its owner. An entry that changes is
// removed first, as the API server wants it; entries of others stay; without a change nothing is sent.
func TestCSINodeListsDrivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		s := &storageFake{changed: wakeup.NewSignal()}
		r.a.cfg.Storage = s
		refused := false
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.resource != "csinodes" || q.verb == http.MethodGet {
				return nil, nil
			}
			if !refused {
				refused = true
				return nil, apierrors.NewConflict(schema.GroupResource{Resource: "csinodes"}, q.name, errors.New("changed"))
			}
			return nil, nil
		}
		r.start()
		is := func(want string) {
			t.Helper()
			pass(time.Minute)
			if got := r.csiNodeOf(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		is("")
		node := &storagev1.CSINode{}
		r.get(t, "csinodes", "", "edge", node)
		if len(node.OwnerReferences) != 1 || node.OwnerReferences[0].Kind != "Node" ||
			node.OwnerReferences[0].UID != r.a.node().UID {
			t.Errorf("owners: %+v", node.OwnerReferences)
		}
		// Another node agent has added a driver.
		node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "other", NodeID: "x"}}
		r.replace(t, node)
		disks := csivolume.NodeDriver{Name: "disks", NodeID: "n1", MaxVolumes: 8,
			Topology: map[string]string{"zone": "a", "rack": "1"}}
		s.set(func() { s.drivers = []csivolume.NodeDriver{disks} })
		is("other=x disks=n1(8)rack+zone")
		if labels := r.a.node().Labels; labels["zone"] != "a" || labels["rack"] != "1" {
			t.Errorf("labels: %v", labels)
		}
		disks.NodeID = "n2"
		disks.Topology = map[string]string{"zone": "b"}
		s.set(func() { s.drivers = []csivolume.NodeDriver{disks} })
		is("other=x disks=n2(8)zone")
		if warnings := strings.Join(r.warnings(), "\n"); r.a.node().Labels["zone"] != "a" ||
			!strings.Contains(warnings, "zone=b") {
			t.Errorf("a label with another value: %v, %q", r.a.node().Labels, warnings)
		}
		r.requests()
		pass(time.Hour)
		if n := slices.IndexFunc(r.requests(), func(q fakeRequest) bool { return q.resource == "csinodes" }); n >= 0 {
			t.Error("requests without a change")
		}
		s.set(func() { s.drivers = nil })
		is("other=x")
		r.end()
	})
}

// The volumes in use are in the status of the node, and stay there while the record cannot be read.
func TestVolumesInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		s := &storageFake{changed: wakeup.NewSignal()}
		r.a.cfg.Storage = s
		r.start()
		is := func(want ...v1.UniqueVolumeName) {
			t.Helper()
			synctest.Wait()
			pass(time.Second)
			node := &v1.Node{}
			r.get(t, "nodes", "", "edge", node)
			if !slices.Equal(node.Status.VolumesInUse, want) {
				t.Errorf("got %q, want %q", node.Status.VolumesInUse, want)
			}
		}
		is()
		s.set(func() { s.used = []csivolume.ID{{Driver: "disks", Handle: "vol-1"}} })
		is("kubernetes.io/csi/disks^vol-1")
		s.set(func() { s.used, s.err = nil, errors.New("damaged") })
		is("kubernetes.io/csi/disks^vol-1")
		s.set(func() { s.err = nil })
		is()
		r.end()
	})
}

// A Node object that was made again gets a CSINode object that belongs to it.
func TestCSINodeOfANewNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		r.a.cfg.Storage = &storageFake{changed: wakeup.NewSignal(),
			drivers: []csivolume.NodeDriver{{Name: "disks", NodeID: "n1"}}}
		r.replace(t,
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "edge",
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "edge", UID: "old"}}}})
		r.start()
		pass(time.Minute)
		node := &storagev1.CSINode{}
		r.get(t, "csinodes", "", "edge", node)
		if got := r.csiNodeOf(); got != "disks=n1" || len(node.OwnerReferences) != 1 ||
			node.OwnerReferences[0].UID != r.a.node().UID {
			t.Errorf("%q %+v", got, node.OwnerReferences)
		}
		r.end()
	})
}

// A volume that is attached is used after the Node object reports that it is in use, and stays in use there until the
// node has unstaged it.
func TestAttachedVolumeIsInUseFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newObjectsHarness(t)
		s := &storageFake{changed: wakeup.NewSignal()}
		r.a.cfg.Storage = s
		var mu sync.Mutex
		refused := true
		r.react = func(q fakeRequest) (runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			if refused && q.resource == "nodes" && q.sub == "status" {
				return nil, apierrors.NewInternalError(errors.New("not now"))
			}
			return nil, nil
		}
		r.start()
		r.bindCSI(nil)
		r.replace(t, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: attachmentKey{driver: testDriver, handle: "vol-1"}.object("edge")},
			Status:     storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "sdb"}},
		})
		pod := r.pod("db", claimVolume("data"))
		pass(time.Minute)
		if got := r.attachment(pod); !strings.Contains(got, "is attached; the pod waits until status.volumesAttached") {
			t.Errorf("before the controller has written the status: %s", got)
		}
		node := &v1.Node{}
		r.get(t, "nodes", "", "edge", node)
		node.Status.VolumesAttached = []v1.AttachedVolume{
			{Name: inUseName(csivolume.ID{Driver: testDriver, Handle: "vol-1"})}}
		r.wasNotified()
		r.replace(t, node)
		pass(time.Minute)
		if !r.wasNotified() {
			t.Error("no notification of the status")
		}
		if got := r.attachment(pod); !strings.Contains(got, "is attached; the pod waits until status.volumesInUse") {
			t.Errorf("before the status: %s", got)
		}
		before, _ := r.o.State(pod)
		mu.Lock()
		refused = false
		mu.Unlock()
		r.wasNotified()
		pass(10 * time.Minute)
		if got := r.attachment(pod); got != `{"device":"sdb"}` {
			t.Errorf("after the status: %s", got)
		}
		if now, _ := r.o.State(pod); now == before || !r.wasNotified() {
			t.Errorf("no notification: %q", now)
		}
		used := func() int {
			pass(time.Minute)
			node := &v1.Node{}
			r.get(t, "nodes", "", "edge", node)
			return len(node.Status.VolumesInUse)
		}
		s.set(func() { s.used = []csivolume.ID{{Driver: testDriver, Handle: "vol-1"}} })
		if used() != 1 {
			t.Error("a volume of a pod is not in use once")
		}
		r.remove("pods", "default", "db")
		if used() != 1 {
			t.Error("a staged volume is not in use")
		}
		s.set(func() { s.used = nil })
		if used() != 0 {
			t.Error("a volume that was unstaged is in use")
		}
		r.end()
	})
}
