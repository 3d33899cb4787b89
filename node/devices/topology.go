package devices

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/node/topology"
)

// SetAffinity sets the function that reports whether a device on some NUMA nodes is near a container;
// it is called with no nodes too. Without it no device is preferred.
func (m *Manager) SetAffinity(near func(uid types.UID, container string, nodes []int) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.near = near
}

// nodesOf returns the NUMA nodes of a device that its plugin reports. Numbers that no node has, such
// as the -1 with which the kernel reports that there is none, are left out.
func nodesOf(d *pluginapi.Device) (nodes []int) {
	for _, node := range d.GetTopology().GetNodes() {
		if id := node.GetID(); id >= 0 && id <= topology.MaxNode {
			nodes = append(nodes, int(id))
		}
	}
	return nodes
}

// numaNodes returns the NUMA node of the device node at a path, from the nearest device in sysfs that
// has one: that of a serial port on USB is its controller's. It is nil if the kernel knows none.
func numaNodes(sys, path string) []int {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil
	}
	class := "char"
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		class = "block"
	}
	dir, err := filepath.EvalSymlinks(
		filepath.Join(sys, "dev", class, fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))))
	for ; err == nil && len(dir) > len(sys); dir = filepath.Dir(dir) {
		text, err := boundedfile.Read(filepath.Join(dir, "numa_node"), 64)
		if err != nil {
			continue
		}
		if node, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && node >= 0 && node <= topology.MaxNode {
			return []int{node}
		}
		return nil
	}
	return nil
}

// Nodes returns the NUMA nodes of each healthy device of a resource, and of each one that no pod has but
// these; nothing for one whose plugin, or whose driver, does not say.
func (m *Manager) Nodes(name v1.ResourceName, uids ...types.UID) (all, free [][]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.resources[name]
	if !r.isListed() {
		return nil, nil
	}
	for id, healthy := range r.devices {
		if healthy {
			all = append(all, r.nodes[id])
		}
	}
	for id := range m.free(name, uids...) {
		free = append(free, r.nodes[id])
	}
	return all, free
}

// NUMANodes returns those of a device, nil if they are not known.
func (m *Manager) NUMANodes(name v1.ResourceName, id string) []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.resources[name]; r != nil {
		return r.nodes[id]
	}
	return nil
}

// Requests returns how many devices a pod needs at the same time, by resource.
func (m *Manager) Requests(pod *v1.Pod) map[v1.ResourceName]int64 { return desired(pod) }

// Holds reports whether a pod has devices.
func (m *Manager) Holds(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid] != nil
}

// Await makes TakeChanged return a pod after the next change: it waits for devices on other NUMA
// nodes than those that are free.
func (m *Manager) Await(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.healthChanged[uid] = true
}

// nearest moves the devices near a container to the front, without another change of the order. mu
// is held.
func (m *Manager) nearest(uid types.UID, s step, ids []string) (ordered []string, near int) {
	if m.near == nil {
		return ids, 0
	}
	r := m.resources[s.resource]
	isNear := func(id string) bool { return m.near(uid, s.container, r.nodes[id]) }
	ordered = slices.Clone(ids)
	slices.SortStableFunc(ordered, func(a, b string) int {
		switch x, y := isNear(a), isNear(b); {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	})
	for _, id := range ordered {
		if isNear(id) {
			near++
		}
	}
	return ordered, near
}
