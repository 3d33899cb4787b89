package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Nodes are the NUMA nodes of a machine, each with its distances to all nodes in the order of
// their numbers; nil if the kernel does not report them.
type Nodes map[int][]int

// ReadNodes reads the NUMA nodes below the directory of sysfs. A kernel without NUMA has the node
// 0.
func ReadNodes(sys string) (Nodes, error) {
	n := Nodes{}
	dirs, _ := filepath.Glob(filepath.Join(sys, "devices/system/node/node[0-9]*"))
	for _, dir := range dirs {
		node, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "node"))
		if err != nil {
			continue
		}
		if node >= MaxNode {
			return nil, fmt.Errorf("NUMA node %d: only nodes below %d are supported", node, MaxNode)
		}
		n[node] = nil
		text, _ := os.ReadFile(filepath.Join(dir, "distance"))
		for field := range strings.FieldsSeq(string(text)) {
			distance, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("failed to read the distances of NUMA node %d: %w", node, err)
			}
			n[node] = append(n[node], distance)
		}
	}
	if len(n) == 0 {
		n[0] = nil
	}
	return n, nil
}

// Mask returns all nodes.
func (n Nodes) Mask() (m Mask) {
	for node := range n {
		m |= NewMask(node)
	}
	return m
}

// distance returns the average distance between the nodes of a set.
func (n Nodes) distance(m Mask) float64 {
	all, sum, pairs := n.Mask().Nodes(), 0, 0
	for _, from := range m.Nodes() {
		for i, to := range all {
			if m.Has(to) && i < len(n[from]) {
				sum += n[from][i]
				pairs++
			}
		}
	}
	return float64(sum) / float64(max(pairs, 1))
}

// HasDistances reports whether the kernel reports the distances of all nodes.
func (n Nodes) HasDistances() bool {
	for _, distances := range n {
		if len(distances) != len(n) {
			return false
		}
	}
	return true
}
