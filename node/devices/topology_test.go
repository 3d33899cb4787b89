package devices_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/test/testbed/deviceplugin"
)

// The NUMA nodes of free devices are reported, and a container gets devices on its own nodes if
// there are enough, also when the plugin chooses.
func TestDevicesNearContainers(t *testing.T) {
	for name, preferred := range map[string]func(available, must []string, count int) []string{
		"the node chooses":   nil,
		"the plugin chooses": func(available, _ []string, count int) []string { return available[:count] },
	} {
		n := newNode(t)
		n.plugin(deviceplugin.Options{Devices: []string{"a", "b", "c", "d"},
			Nodes: map[string]int64{"a": 0, "b": 1, "c": 1, "d": -1}, Preferred: preferred})
		n.awaitAllocatable(4)
		n.SetAffinity(func(_ types.UID, container string, nodes []int) bool { return slices.Contains(nodes, 1) })
		all, free := n.Nodes(dongle, "")
		slices.SortFunc(all, slices.Compare)
		if len(free) != 4 || !slices.EqualFunc(all, [][]int{nil, {0}, {1}, {1}}, slices.Equal) {
			t.Errorf("%s: all devices are on %v, free ones on %v", name, all, free)
		}
		n.Await("waits")
		if got := n.TakeChanged(); !slices.Contains(got, "waits") || slices.Contains(n.TakeChanged(), "waits") {
			t.Errorf("%s: changed pods are %v", name, got)
		}
		first, second := pod("first", 2), pod("second", 1)
		n.allocate(first)
		n.allocate(second)
		if got := n.ids(first, "main"); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("%s: the first pod has %v", name, got)
		}
		if got := n.ids(second, "main"); len(got) != 1 || !n.Holds(second.UID) {
			t.Errorf("%s: the second pod has %v", name, got)
		}
		if _, free := n.Nodes(dongle, ""); len(free) != 1 {
			t.Errorf("%s: free devices are on %v", name, free)
		}
		if _, free := n.Nodes(dongle, first.UID); len(free) != 3 {
			t.Errorf("%s: the first pod can have devices on %v", name, free)
		}
		if got := n.Requests(first)[dongle]; got != 2 {
			t.Errorf("%s: the first pod requests %d", name, got)
		}
	}
}

// The NUMA node of a local device is that of the nearest device in sysfs which has one. Of a device
// that the kernel has on no node nothing is reported.
func TestNUMANodesOfLocalDevices(t *testing.T) {
	n, dir := newLocalNode(t, "serial[0-9]", 2, "serial0", "serial1", "serial2")
	n.stop()
	sys := t.TempDir()
	for file, text := range map[string]string{
		"devices/pci0/numa_node":         "1\n",
		"devices/pci0/usb1/tty/null/dev": "1:3\n",
		"devices/pci1/numa_node":         "-1\n",
		"devices/pci1/zero/dev":          "1:5\n",
	} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(sys, file)), 0o700))
		check(t, os.WriteFile(filepath.Join(sys, file), []byte(text), 0o600))
	}
	check(t, os.MkdirAll(filepath.Join(sys, "dev/char"), 0o700))
	check(t, os.Symlink("../../devices/pci0/usb1/tty/null", filepath.Join(sys, "dev/char/1:3")))
	check(t, os.Symlink("../../devices/pci1/zero", filepath.Join(sys, "dev/char/1:5")))
	n.options.Sys = sys
	n.start()
	all, free := n.Nodes(dongle, "")
	slices.SortFunc(all, slices.Compare)
	if want := [][]int{nil, nil, nil, nil, {1}, {1}}; !slices.EqualFunc(all, want, slices.Equal) || len(free) == 0 {
		t.Errorf("the devices are on %v, free ones on %v, want %v: /dev/null is on node 1", all, free, want)
	}
	null := filepath.Join(dir, "serial0")
	if got := n.NUMANodes(dongle, null+"#2"); !slices.Equal(got, []int{1}) || n.NUMANodes(dongle, "other") != nil ||
		n.NUMANodes("none", null) != nil {
		t.Errorf("the second slot of /dev/null is on %v", got)
	}
}
