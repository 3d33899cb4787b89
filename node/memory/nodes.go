package memory

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/node/topology"
)

// Amounts are bytes by type of memory: memory, or hugepages of one size.
type Amounts map[v1.ResourceName]int64

// Nodes are the amounts of each NUMA node.
type Nodes map[int]Amounts

// maxNodes is the largest number of NUMA nodes, that of the topology manager: each set of them may
// have to be considered.
const maxNodes = 16

// ReadNodes reads the memory of the NUMA nodes. root is that of the file system, with /sys and
// /proc. memory is all that a node has, in hugepages or not. A kernel without NUMA has the node 0.
func ReadNodes(root string) (Nodes, error) {
	nodes := Nodes{}
	dirs, _ := filepath.Glob(filepath.Join(root, "sys/devices/system/node/node[0-9]*"))
	for _, dir := range dirs {
		id, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil || id >= topology.MaxNode {
			continue
		}
		if err := nodes.read(id, filepath.Join(dir, "meminfo"), filepath.Join(dir, "hugepages")); err != nil {
			return nil, err
		}
	}
	if len(nodes) > maxNodes {
		return nil, fmt.Errorf("this node has %d NUMA nodes, and %d are supported", len(nodes), maxNodes)
	}
	if len(nodes) > 0 {
		return nodes, nil
	}
	return nodes, nodes.read(0, filepath.Join(root, "proc/meminfo"), filepath.Join(root, "sys/kernel/mm/hugepages"))
}

// read adds a node, from its file in the form of meminfo and its directory of hugepages.
func (n Nodes) read(id int, meminfo, hugepages string) error {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return fmt.Errorf("failed to read the memory of NUMA node %d: %w", id, err)
	}
	amounts := Amounts{}
	for line := range strings.Lines(string(text)) {
		// "Node 0 MemTotal: 1024 kB", or without the node
		if _, value, ok := strings.Cut(line, "MemTotal:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return fmt.Errorf("failed to read the memory of NUMA node %d: %s: %w", id, meminfo, err)
			}
			amounts[v1.ResourceMemory] = kib << 10
		}
	}
	sizes, _ := filepath.Glob(filepath.Join(hugepages, "hugepages-*kB"))
	for _, dir := range sizes {
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(dir), "hugepages-"), "kB"), 10, 64)
		if err != nil {
			continue
		}
		count, _ := os.ReadFile(filepath.Join(dir, "nr_hugepages"))
		pages, err := strconv.ParseInt(strings.TrimSpace(string(count)), 10, 64)
		if err != nil {
			continue
		}
		size := resource.NewQuantity(kib<<10, resource.BinarySI)
		amounts[v1.ResourceName(v1.ResourceHugePagesPrefix+size.String())] = pages * kib << 10
	}
	n[id] = amounts
	return nil
}

// Total returns the amount of one type on all nodes.
func (n Nodes) Total(name v1.ResourceName) (sum int64) {
	for _, amounts := range n {
		sum += amounts[name]
	}
	return sum
}

// mask returns all nodes.
func (n Nodes) mask() (m topology.Mask) {
	for id := range n {
		m |= topology.NewMask(id)
	}
	return m
}

// in returns the amount of one type on some nodes.
func (n Nodes) in(mask topology.Mask, name v1.ResourceName) (sum int64) {
	for _, id := range mask.Nodes() {
		sum += n[id][name]
	}
	return sum
}

// without returns what is left for containers when the reserved amounts are taken, at least 0. Memory
// in hugepages is no other memory.
func (n Nodes) without(reserved Nodes) Nodes {
	left := Nodes{}
	for id, amounts := range n {
		left[id] = Amounts{}
		for name, amount := range amounts {
			amount -= reserved[id][name]
			if name == v1.ResourceMemory {
				amount -= amounts.hugepages()
			}
			left[id][name] = max(amount, 0)
		}
	}
	return left
}

func (a Amounts) hugepages() (sum int64) {
	for name, amount := range a {
		if name != v1.ResourceMemory {
			sum += amount
		}
	}
	return sum
}
