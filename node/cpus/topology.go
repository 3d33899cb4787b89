package cpus

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CPU is one logical CPU. Core, Cache, Node and Socket identify what it shares with others;
// they are unique on the machine.
type CPU struct {
	ID int
	// Core is the physical core, by its first CPU.
	Core int
	// Cache is the uncore cache, the one of the highest level, by its first CPU.
	Cache int
	// Node is the NUMA node, and Socket the physical package.
	Node, Socket int
}

// Topology are the online CPUs of a machine, by ID.
type Topology map[int]CPU

// ReadTopology reads the topology below the directory of sysfs. What the kernel does not
// report counts as one: one NUMA node, one socket, one cache, a core for each CPU.
func ReadTopology(sys string) (Topology, error) {
	dir := filepath.Join(sys, "devices/system")
	text, err := os.ReadFile(filepath.Join(dir, "cpu/online"))
	if err != nil {
		return nil, fmt.Errorf("failed to read the topology of the CPUs: %w", err)
	}
	online, err := ParseSet(string(text))
	if err != nil || len(online) == 0 {
		return nil, fmt.Errorf("failed to read the topology of the CPUs: %s/cpu/online is %q", dir, text)
	}
	t := Topology{}
	for _, id := range online {
		cpu := filepath.Join(dir, "cpu", "cpu"+strconv.Itoa(id))
		t[id] = CPU{
			ID: id, Core: first(filepath.Join(cpu, "topology/thread_siblings_list"), id), Cache: uncoreCache(cpu),
			Socket: max(number(filepath.Join(cpu, "topology/physical_package_id")), 0),
		}
	}
	nodes, _ := filepath.Glob(filepath.Join(dir, "node/node[0-9]*/cpulist"))
	for _, file := range nodes {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(file)), "node"))
		if err != nil {
			continue
		}
		for _, id := range list(file) {
			if cpu, ok := t[id]; ok {
				cpu.Node = node
				t[id] = cpu
			}
		}
	}
	return t, nil
}

// uncoreCache returns the first CPU of the cache of the highest level, 0 if there is none.
func uncoreCache(cpu string) int {
	level, cache := 0, 0
	dirs, _ := filepath.Glob(filepath.Join(cpu, "cache/index[0-9]*"))
	for _, dir := range dirs {
		if n := number(filepath.Join(dir, "level")); n > level {
			level, cache = n, first(filepath.Join(dir, "shared_cpu_list"), 0)
		}
	}
	return cache
}

// list reads a list of CPUs, empty if it cannot be read.
func list(file string) Set {
	text, _ := os.ReadFile(file)
	set, _ := ParseSet(string(text))
	return set
}

// first returns the first CPU of a list, otherwise the one that stands for none.
func first(file string, otherwise int) int {
	if set := list(file); len(set) > 0 {
		return set[0]
	}
	return otherwise
}

// number reads a number, -1 if it cannot be read.
func number(file string) int {
	text, _ := os.ReadFile(file)
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return -1
	}
	return n
}

// All returns all CPUs.
func (t Topology) All() Set {
	list := make([]int, 0, len(t))
	for id := range t {
		list = append(list, id)
	}
	return NewSet(list...)
}

// ThreadsPerCore returns the number of CPUs of the largest core.
func (t Topology) ThreadsPerCore() int {
	most := 0
	for _, core := range t.groups(t.All(), byCore) {
		most = max(most, len(core))
	}
	return most
}

// SocketsSplitNodes reports whether a NUMA node has CPUs of several sockets: align-by-socket has no
// meaning then.
func (t Topology) SocketsSplitNodes() bool { return len(t.sizes(bySocket)) > len(t.sizes(byNode)) }

// key returns what a CPU shares with others.
type key func(CPU) int

func byCore(c CPU) int   { return c.Core }
func byCache(c CPU) int  { return c.Cache }
func byNode(c CPU) int   { return c.Node }
func bySocket(c CPU) int { return c.Socket }

// groups divides CPUs by what they share.
func (t Topology) groups(set Set, by key) map[int]Set {
	groups := map[int]Set{}
	for _, id := range set {
		k := by(t[id])
		groups[k] = append(groups[k], id)
	}
	return groups
}

// sizes returns the number of CPUs of each group of the machine.
func (t Topology) sizes(by key) map[int]int {
	sizes := map[int]int{}
	for _, cpu := range t {
		sizes[by(cpu)]++
	}
	return sizes
}

// fullestFirst returns the groups of free CPUs in the order in which they are used: those with
// the fewest free CPUs first, so that others stay whole, then by number.
func (t Topology) fullestFirst(free Set, by key) []Set {
	groups := t.groups(free, by)
	list := make([]Set, 0, len(groups))
	for _, group := range groups {
		list = append(list, group)
	}
	slices.SortFunc(list, func(a, b Set) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return a[0] - b[0]
	})
	return list
}
