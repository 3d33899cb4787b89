package cluster

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/internal/wakeup"
)

// An entry that a previous process has written is removed when its driver deregisters, also if the driver
// registered with the same values, so that nothing was written.
func TestCSINodeEntryOfAPreviousProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		s := &storageFake{changed: wakeup.NewSignal()}
		r.a.cfg.Storage = s
		r.start()
		pass(time.Minute)
		node := &storagev1.CSINode{}
		r.get(t, "csinodes", "", "edge", node)
		r.end()
		node.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "disks", NodeID: "n1"}}
		r.replace(t, node)

		second := newClusterHarness(t)
		second.fakeAPI = r.fakeAPI
		c, err := newClient(r.config(), second.a.connection, RateLimit{}, RateLimit{})
		if err != nil {
			t.Fatal(err)
		}
		second.a.setClient(c)
		second.a.cfg.Storage = s
		second.start()
		pass(time.Minute)
		if got := second.csiNodeOf(); got != "disks=n1" {
			t.Errorf("before the driver registers again: %q", got)
		}
		s.set(func() { s.drivers = []csivolume.NodeDriver{{Name: "disks", NodeID: "n1"}} })
		pass(time.Minute)
		s.set(func() { s.drivers = nil })
		pass(time.Minute)
		if got := second.csiNodeOf(); got != "" {
			t.Errorf("after the driver deregistered: %q", got)
		}
		second.end()
	})
}

// A label of a driver that the API server refuses does not keep the status of the node from being reported.
func TestRefusedTopologyLabel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newClusterHarness(t)
		s := &storageFake{changed: wakeup.NewSignal()}
		r.a.cfg.Storage = s
		r.react = func(q fakeRequest) (runtime.Object, error) {
			if q.resource == "nodes" && q.sub == "" && strings.Contains(string(q.body), "example.k8s.io/zone") &&
				q.verb == "PATCH" {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, q.name,
					errors.New("label is not allowed"))
			}
			return nil, nil
		}
		r.start()
		pass(time.Minute)
		s.set(func() {
			s.drivers = []csivolume.NodeDriver{
				{Name: "disks", NodeID: "n1", MaxVolumes: 1 << 40, Topology: map[string]string{"example.k8s.io/zone": "a"}}}
			s.used = []csivolume.ID{{Driver: "disks", Handle: "vol-1"}}
		})
		pass(time.Minute)
		node := &v1.Node{}
		r.get(t, "nodes", "", "edge", node)
		if len(node.Status.VolumesInUse) != 1 {
			t.Errorf("in use: %q", node.Status.VolumesInUse)
		}
		if w := strings.Join(r.warnings(), "\n"); !strings.Contains(w, "label is not allowed") {
			t.Errorf("warnings: %s", w)
		}
		r.requests()
		pass(time.Hour)
		n := 0
		for _, q := range r.requests() {
			if q.verb == "PATCH" && q.resource == "nodes" && q.sub == "" {
				n++
			}
		}
		if n == 0 || n > 12 || len(r.warnings()) > 0 {
			t.Errorf("the labels were sent %d times in an hour; warnings: %q", n, r.warnings())
		}
		if got := r.csiNodeCount("disks"); got != math.MaxInt32 {
			t.Errorf("count: %d", got)
		}
		r.end()
	})
}

// csiNodeCount returns how many volumes a driver can have by the CSINode object.
func (r *clusterHarness) csiNodeCount(driver string) int32 {
	node := &storagev1.CSINode{}
	r.get(r.t, "csinodes", "", "edge", node)
	for _, d := range node.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return *d.Allocatable.Count
		}
	}
	return 0
}
