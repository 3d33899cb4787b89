package devices

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/device"
)

// Local are devices of the node that containers get without a device plugin: device nodes, or CDI
// devices.
type Local struct {
	// Paths are absolute paths of device nodes, or patterns of them as filepath.Match has them.
	Paths []string
	// Permissions are those that containers have: one or more of r, w and m (mknod).
	Permissions string
	// CDI are fully qualified names of CDI devices, instead of Paths.
	CDI []string
	// PodsPerDevice is how many pods can have one device at the same time, at least 1.
	PodsPerDevice int
}

// find returns the devices that the node has now: the paths that match, or the names of CDI
// devices, which count as present. A device at several paths counts once, at a path that has it
// already, else at that of the first pattern: a link that udev creates later does not change the ID.
func (l *Local) find(has func(path string) bool) (found []string) {
	if len(l.CDI) > 0 {
		return l.CDI
	}
	targets := map[string]string{}
	var order []string
	for _, pattern := range l.Paths {
		matches, _ := filepath.Glob(pattern) // the configuration has valid patterns only
		for _, path := range matches {
			target, err := deviceAt(path)
			if err != nil {
				continue
			}
			before, seen := targets[target]
			if !seen {
				order = append(order, target)
			}
			if !seen || !has(before) && has(path) {
				targets[target] = path
			}
		}
	}
	for _, target := range order {
		found = append(found, targets[target])
	}
	return found
}

// deviceAt returns the device node at a path, behind all links.
func deviceAt(path string) (string, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(target)
	if err != nil {
		return "", err
	}
	if info.Mode()&fs.ModeDevice == 0 {
		return "", fmt.Errorf("%s is not a device", path)
	}
	return target, nil
}

// slots returns the IDs of devices, by ID the device: one for each pod that can have it. The first
// one is the device's own, so that allocations stay valid when the number of pods changes.
func (l *Local) slots(found []string) map[string]string {
	slots := map[string]string{}
	for _, name := range found {
		slots[name] = name
		for i := 2; i <= l.PodsPerDevice; i++ {
			slots[name+"#"+strconv.Itoa(i)] = name
		}
	}
	return slots
}

// deviceOf returns the device of an ID; that of an ID that is not listed any more too.
func (r *deviceResource) deviceOf(id string) string {
	if name, ok := r.slots[id]; ok {
		return name
	}
	if i := strings.LastIndexByte(id, '#'); i > 0 && r.local != nil {
		return id[:i]
	}
	return id
}

// assignLocal returns what devices of these IDs add to a container: the devices as they are now,
// because a device that was plugged in again may have another number.
func (m *Manager) assignLocal(r *deviceResource, name v1.ResourceName, ids []string) (a device.Assignment, err error) {
	var devs []string
	m.mu.Lock()
	for _, id := range ids {
		devs = append(devs, r.deviceOf(id))
	}
	m.mu.Unlock()
	for _, dev := range devs {
		if len(r.local.CDI) > 0 {
			a.CDI = append(a.CDI, dev)
			continue
		}
		target, err := deviceAt(dev)
		if err != nil {
			return device.Assignment{}, fmt.Errorf("the device %s is not there; the container starts when it is", dev)
		}
		a.Nodes = append(a.Nodes, device.Node{HostPath: target, ContainerPath: dev, Permissions: r.local.Permissions})
	}
	if len(a.Nodes) > 0 {
		var paths []string
		for _, n := range a.Nodes {
			paths = append(paths, n.ContainerPath)
		}
		a.Env = map[string]string{variable(name): strings.Join(paths, ",")}
	}
	return a, nil
}

// variable returns the name of the environment variable with the paths of the devices of a resource:
// EDGE_EXAMPLE_SERIAL for edge.example/serial.
func variable(name v1.ResourceName) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' {
			return c - 'a' + 'A'
		}
		if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, string(name))
}

// isLocal reports whether an allocation is of a local device: with another one, made when the
// resource was a plugin's, the container keeps what the plugin had responded.
func (r *deviceResource) isLocal(a *allocation) bool {
	if r == nil || r.local == nil {
		return false
	}
	return !slices.ContainsFunc(a.ids, func(id string) bool {
		_, listed := r.slots[id]
		dev := r.deviceOf(id)
		return !listed && !slices.Contains(a.assigned.CDI, dev) &&
			!slices.ContainsFunc(a.assigned.Nodes, func(n device.Node) bool { return n.ContainerPath == dev })
	})
}

// distinct returns, of the free IDs of a local resource, one for each device: what a pod gets are
// different devices. Of a device with several free IDs it is one of those that were had before.
func (r *deviceResource) distinct(free, had idSet, inUse map[string]int) idSet {
	if r.local == nil {
		return free
	}
	best := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(free)) {
		dev := r.deviceOf(id)
		if other, ok := best[dev]; inUse[dev] < r.local.PodsPerDevice && (!ok || had[id] && !had[other]) {
			best[dev] = id
		}
	}
	one := idSet{}
	for _, id := range best {
		one[id] = true
	}
	return one
}

// updateLocal looks for the local devices, and notifies of a change. Only New and watchLocal call it.
func (m *Manager) updateLocal() {
	type change struct {
		name          v1.ResourceName
		added, lost   []string
		devices, pods int
	}
	var changes []change
	for _, name := range slices.Sorted(maps.Keys(m.options.Local)) {
		m.mu.Lock()
		r, had := m.resources[name], idSet{}
		for _, dev := range r.slots {
			had[dev] = true
		}
		for _, p := range m.pods {
			for id := range p.ids(name) {
				had[r.deviceOf(id)] = true
			}
		}
		m.mu.Unlock()
		slots := r.local.slots(r.local.find(func(path string) bool { return had[path] }))
		nodes := map[string][]int{}
		for id, dev := range slots {
			nodes[id] = numaNodes(cmp.Or(m.options.Sys, "/sys"), dev)
		}
		m.mu.Lock()
		before := r.slots
		r.slots, r.devices, r.nodes = slots, map[string]bool{}, nodes
		for id := range slots {
			r.devices[id] = true
		}
		if before == nil || !maps.Equal(slots, before) {
			m.noteHealth(name)
			changes = append(changes, change{name, missing(slots, before), missing(before, slots),
				len(slots) / r.local.PodsPerDevice, r.local.PodsPerDevice})
		}
		m.mu.Unlock()
	}
	for _, c := range changes {
		m.log.Info("Local devices changed", "resource", c.name, "devices", c.devices, "podsPerDevice", c.pods, "added",
			c.added, "removed", c.lost)
	}
	if len(changes) > 0 {
		m.changed.Notify()
	}
}

// missing returns the devices of a set of slots that another set does not have, sorted.
func missing(set, other map[string]string) (devs []string) {
	for id, dev := range set {
		if _, ok := other[dev]; !ok && id == dev {
			devs = append(devs, dev)
		}
	}
	slices.Sort(devs)
	return devs
}
