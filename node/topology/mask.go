package topology

import (
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxNode is the largest number of a NUMA node that is supported.
const MaxNode = 63

// Mask is a set of NUMA nodes; 0 stands for any.
type Mask uint64

// NewMask returns the set of some nodes, each from 0 to MaxNode.
func NewMask(nodes ...int) (m Mask) {
	for _, node := range nodes {
		m |= 1 << node
	}
	return m
}

// Count returns the number of nodes.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Has reports whether a node is in the set.
func (m Mask) Has(node int) bool { return node >= 0 && node <= MaxNode && m&(1<<node) != 0 }

// Nodes returns the nodes in ascending order.
func (m Mask) Nodes() (nodes []int) {
	for rest := uint64(m); rest != 0; rest &= rest - 1 {
		nodes = append(nodes, bits.TrailingZeros64(rest))
	}
	return nodes
}

// String lists the nodes, such as 0,2.
func (m Mask) String() string {
	var parts []string
	for _, node := range m.Nodes() {
		parts = append(parts, strconv.Itoa(node))
	}
	return strings.Join(parts, ",")
}

// Narrower reports whether m has fewer nodes than o, or as many with lower numbers.
func (m Mask) Narrower(o Mask) bool {
	if m.Count() != o.Count() {
		return m.Count() < o.Count()
	}
	return m < o
}

// Subsets returns each set of nodes in m that is not empty.
func (m Mask) Subsets() iter.Seq[Mask] {
	return func(yield func(Mask) bool) {
		for sub := m; sub != 0; sub = (sub - 1) & m {
			if !yield(sub) {
				return
			}
		}
	}
}

// Hint is a set of NUMA nodes that could serve a request. Preferred ones have as few nodes as any
// set that could serve it if nothing else ran.
type Hint struct {
	Mask      Mask
	Preferred bool
}

// HintsFor returns the hints for a request: the sets of nodes that can serve it now. canEver
// reports whether a set could serve it if nothing else ran.
func HintsFor(all Mask, canNow, canEver func(Mask) bool) []Hint {
	hints, least := []Hint{}, all.Count()
	for mask := range all.Subsets() {
		if canEver(mask) {
			least = min(least, mask.Count())
		}
		if canNow(mask) {
			hints = append(hints, Hint{Mask: mask})
		}
	}
	for i := range hints {
		hints[i].Preferred = hints[i].Mask.Count() == least
	}
	return hints
}
