package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The policies, by the kubelet's names.
const (
	PolicyNone           = "none"
	PolicyBestEffort     = "best-effort"
	PolicyRestricted     = "restricted"
	PolicySingleNUMANode = "single-numa-node"
)

// Policies lists all of them.
var Policies = []string{PolicyNone, PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode}

// The scopes, by the kubelet's names: each container is aligned, or all of a pod together.
const (
	ScopeContainer = "container"
	ScopePod       = "pod"
)

// The names of topologyManagerPolicyOptions.
const (
	optionClosest  = "prefer-closest-numa-nodes"
	optionMaxNodes = "max-allowable-numa-nodes"
)

// DefaultMaxNodes is the number of NUMA nodes above which a policy is refused, because the time of
// an admission grows with the number of sets of them. It can be raised up to limitNodes.
const (
	DefaultMaxNodes = 8
	limitNodes      = 16
)

// Options are topologyManagerPolicyOptions. Use ParseOptions for the defaults.
type Options struct {
	// PreferClosest prefers nodes with a short distance (prefer-closest-numa-nodes).
	PreferClosest bool
	// MaxNodes is max-allowable-numa-nodes.
	MaxNodes int
}

// ParseOptions parses topologyManagerPolicyOptions.
func ParseOptions(values map[string]string) (Options, error) {
	o := Options{MaxNodes: DefaultMaxNodes}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var err error
		switch name {
		case optionClosest:
			if o.PreferClosest, err = strconv.ParseBool(values[name]); err != nil {
				return o, fmt.Errorf("%s: %q must be \"true\" or \"false\"", name, values[name])
			}
		case optionMaxNodes:
			if o.MaxNodes, err = strconv.Atoi(values[name]); err != nil || o.MaxNodes < DefaultMaxNodes ||
				o.MaxNodes > limitNodes {
				return o, fmt.Errorf("%s: %q must be a number from %d to %d", name, values[name], DefaultMaxNodes, limitNodes)
			}
		default:
			return o, fmt.Errorf("%q is not a supported option; use %s", name,
				strings.Join([]string{optionMaxNodes, optionClosest}, ", "))
		}
	}
	return o, nil
}

// merger merges hints by one policy.
type merger struct {
	policy  string
	closest bool
	nodes   Nodes
	// target is the number of nodes that a result which is not preferred should have.
	target int
}

// merge returns the set of nodes that fits all lists of hints best, 0 for any, and whether the
// policy admits it. A list is one resource: nil has no preference, and an empty one cannot be
// served now. The result is the kubelet's, which compares each combination of hints; here
// those with the same intersection count once, so that the time does not grow exponentially with
// the number of resources.
func (g *merger) merge(lists [][]Hint) (Mask, bool) {
	all := g.nodes.Mask()
	reached := map[Hint]bool{{Mask: 0, Preferred: true}: true}
	g.target = 0
	for _, list := range lists {
		switch {
		case list == nil:
			list = []Hint{{Preferred: true}}
		case len(list) == 0:
			list = []Hint{{}}
		}
		if g.policy == PolicySingleNUMANode {
			list = slices.DeleteFunc(slices.Clone(list), func(h Hint) bool { return !h.Preferred || h.Mask.Count() > 1 })
		}
		g.target = max(g.target, narrowest(list))
		reached = combine(reached, list)
	}
	best := Hint{Mask: 0}
	for h := range reached {
		if h.Mask == 0 {
			h.Mask = all // no resource has a preference
		}
		if h.Mask != noNodes && (best.Mask == 0 || g.better(h, best)) {
			best = h
		}
	}
	if best.Mask == 0 {
		best = Hint{Mask: all}
	}
	if best.Mask == all && g.policy == PolicySingleNUMANode {
		best.Mask = 0
	}
	return best.Mask, best.Preferred || g.policy == PolicyBestEffort
}

// noNodes stands for an empty intersection; 0 stands for any node. No machine has a node 63 alone
// and no other.
const noNodes = Mask(1 << MaxNode)

// combine returns the intersections of hints with those of another resource. One is preferred if
// all of its hints are, and have the same nodes.
func combine(reached map[Hint]bool, list []Hint) map[Hint]bool {
	next := make(map[Hint]bool, len(reached))
	for h := range reached {
		for _, hint := range list {
			n := Hint{Mask: h.Mask, Preferred: h.Preferred && hint.Preferred}
			switch {
			case hint.Mask == 0:
			case h.Mask == 0:
				n.Mask = hint.Mask
			default:
				n.Preferred = n.Preferred && h.Mask == hint.Mask
				if n.Mask &= hint.Mask; n.Mask == 0 || h.Mask == noNodes {
					n.Mask = noNodes
				}
			}
			next[n] = true
		}
	}
	return next
}

// narrowest returns the number of nodes of the hint with the fewest.
func narrowest(list []Hint) int {
	least := 0
	for _, h := range list {
		if h.Mask != 0 && (least == 0 || h.Mask.Count() < least) {
			least = h.Mask.Count()
		}
	}
	return least
}

// better reports whether a is better than b. Preferred hints go first; among the others those
// whose number of nodes is that of the resource that needs the most, then those with fewer nodes
// than that, as many as possible.
func (g *merger) better(a, b Hint) bool {
	x, y := a.Mask.Count(), b.Mask.Count()
	switch {
	case a.Preferred != b.Preferred:
		return a.Preferred
	case a.Preferred || x == y:
		return g.fitter(a.Mask, b.Mask)
	case x > g.target || y > g.target:
		return x < y
	}
	return x > y
}

// fitter reports whether a set of nodes is narrower than another one, or closer together.
func (g *merger) fitter(a, b Mask) bool {
	if g.closest && g.policy != PolicySingleNUMANode && a.Count() == b.Count() {
		if x, y := g.nodes.distance(a), g.nodes.distance(b); x != y {
			return x < y
		}
	}
	return a.Narrower(b)
}
