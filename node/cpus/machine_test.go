package cpus

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// shape is a machine: NUMA nodes per socket, uncore caches per node, cores per cache, CPUs per
// core. As on real machines the second CPUs of all cores follow the first ones.
type shape struct{ sockets, nodes, caches, cores, threads int }

func (s shape) perThread() int { return s.sockets * s.nodes * s.caches * s.cores }

// write writes the sysfs of the machine below a directory.
func (s shape) write(t *testing.T) string {
	t.Helper()
	sys := t.TempDir()
	file := func(path, text string) {
		t.Helper()
		path = filepath.Join(sys, "devices/system", path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	total := s.perThread() * s.threads
	file("cpu/online", fmt.Sprintf("0-%d", total-1))
	nodes := map[int]Set{}
	for id := range total {
		core := id % s.perThread()
		var siblings, cache Set
		for thread := range s.threads {
			siblings = append(siblings, core+thread*s.perThread())
			for c := core / s.cores * s.cores; c < (core/s.cores+1)*s.cores; c++ {
				cache = append(cache, c+thread*s.perThread())
			}
		}
		node := core / (s.cores * s.caches)
		nodes[node] = append(nodes[node], id)
		cpu := "cpu/cpu" + strconv.Itoa(id) + "/"
		file(cpu+"topology/thread_siblings_list", NewSet(siblings...).String())
		file(cpu+"topology/physical_package_id", strconv.Itoa(node/s.nodes))
		file(cpu+"cache/index0/level", "1")
		file(cpu+"cache/index0/shared_cpu_list", NewSet(siblings...).String())
		file(cpu+"cache/index3/level", "3")
		file(cpu+"cache/index3/shared_cpu_list", NewSet(cache...).String())
	}
	for node, cpus := range nodes {
		file(fmt.Sprintf("node/node%d/cpulist", node), NewSet(cpus...).String())
	}
	return sys
}

// machines are the topologies of the shapes that were read; the files of one are many.
var machines = struct {
	sync.Mutex
	byShape map[shape]Topology
}{byShape: map[shape]Topology{}}

// read returns the topology of the machine.
func (s shape) read(t *testing.T) Topology {
	t.Helper()
	machines.Lock()
	defer machines.Unlock()
	if topology := machines.byShape[s]; topology != nil {
		return topology
	}
	topology, err := ReadTopology(s.write(t))
	if err != nil {
		t.Fatal(err)
	}
	machines.byShape[s] = topology
	return topology
}

func set(t *testing.T, text string) Set {
	t.Helper()
	s, err := ParseSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
