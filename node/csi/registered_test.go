package csi

import (
	"maps"
	"slices"
	"testing"

	"github.com/podstead/podstead/internal/csivolume"
)

// NodeGetInfo's answer, byte by byte: node ID, number of volumes, topology.
func TestNodeInfo(t *testing.T) {
	var entry, topology, response fields
	entry.text(1, "zone")
	entry.text(2, "a")
	topology.bytes(1, entry)
	response.text(1, "n1")
	response.number(2, 8)
	response.bytes(3, topology)
	var info infoResponse
	if err := info.decode(response); err != nil || info.nodeID != "n1" || info.maxVolumes != 8 ||
		!maps.Equal(info.topology, map[string]string{"zone": "a"}) {
		t.Errorf("%+v, %v", info, err)
	}
}

// The registered drivers and the volumes in use are known, and their changes published. A volume that is declared in a
// pod is not attached by anyone.
func TestInUse(t *testing.T) {
	h := newHarness(t)
	changed, end := h.Subscribe()
	defer end()
	happened := func(what string) {
		t.Helper()
		select {
		case <-changed:
		default:
			t.Error("no notification: " + what)
		}
	}
	h.register("a.example.com")
	happened("registered")
	if drivers := h.Drivers(); len(drivers) != 1 || drivers[0].Name != "a.example.com" || drivers[0].NodeID == "" {
		t.Errorf("drivers: %+v", drivers)
	}
	inline := volumeOf("a.example.com", "inline", "one")
	inline.Name, inline.Ephemeral = "inline", true
	h.mustPublish(volumeOf("a.example.com", "v", "one"))
	h.mustPublish(inline)
	happened("published")
	if ids, err := h.InUse(); err != nil || !slices.Equal(ids, []csivolume.ID{{Driver: "a.example.com", Handle: "v"}}) {
		t.Errorf("in use: %+v, %v", ids, err)
	}
	h.mustUnpublish("one")
	happened("unpublished")
	if ids, err := h.InUse(); err != nil || len(ids) != 0 {
		t.Errorf("in use: %+v, %v", ids, err)
	}
}
