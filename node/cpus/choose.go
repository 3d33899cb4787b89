package cpus

import (
	"math"
	"slices"
)

// choose chooses n of the free CPUs. It returns nil if there are fewer.
func (t Topology) choose(free Set, n int, o Options) Set {
	if n > len(free) {
		return nil
	}
	if o.DistributeAcrossNUMA {
		if taken := t.distribute(free, n, o); taken != nil {
			return taken
		}
	}
	return t.pack(free, n, o)
}

// pack chooses CPUs that are as close to each other as possible: whole sockets and NUMA nodes,
// then whole uncore caches if they count, whole cores, and single CPUs, each time as long as
// the rest needs that many. The rest comes from where the fewest CPUs are free.
func (t Topology) pack(free Set, n int, o Options) Set {
	outer, inner := key(bySocket), key(byNode)
	if len(t.sizes(byNode)) < len(t.sizes(bySocket)) {
		outer, inner = inner, outer // a NUMA node of several sockets
	}
	p := &packing{topology: t, free: free, need: n}
	p.takeWhole(outer, free)
	p.takeWhole(inner, free)
	if o.AlignByUncoreCache {
		p.takeWhole(byCache, free)
		p.takeWithin(byCache)
	}
	for _, domain := range t.fullestFirst(p.free, inner) {
		p.takeWhole(byCore, domain)
	}
	for _, domain := range t.fullestFirst(p.free, inner) {
		for _, core := range t.fullestFirst(domain, byCore) {
			p.add(core[:min(p.need, len(core))])
		}
	}
	return p.taken
}

// packing are the CPUs that were taken until now.
type packing struct {
	topology    Topology
	free, taken Set
	need        int
}

func (p *packing) add(set Set) {
	p.taken, p.free, p.need = p.taken.Union(set), p.free.Minus(set), p.need-len(set)
}

// takeWhole takes groups within a domain of which all CPUs are free, if they are not more than
// are needed.
func (p *packing) takeWhole(by key, domain Set) {
	sizes := p.topology.sizes(by)
	groups := p.topology.groups(p.free.Intersect(domain), by)
	names := make([]int, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if group := groups[name]; len(group) == sizes[name] && len(group) <= p.need {
			p.add(group)
		}
	}
}

// takeWithin takes the rest from the first group that has enough free CPUs, whole cores first.
func (p *packing) takeWithin(by key) {
	if p.need == 0 {
		return
	}
	for _, group := range p.topology.fullestFirst(p.free, by) {
		if len(group) < p.need {
			continue
		}
		p.takeWhole(byCore, group)
		for _, core := range p.topology.fullestFirst(p.free.Intersect(group), byCore) {
			p.add(core[:min(p.need, len(core))])
		}
		return
	}
}

// maxDistributed bounds the NUMA nodes whose combinations are compared.
const maxDistributed = 16

// distribute chooses CPUs from the fewest NUMA nodes that have enough, the same number from
// each, and among several choices the one that leaves the free CPUs balanced. It returns nil if
// there is none.
func (t Topology) distribute(free Set, n int, o Options) Set {
	unit := 1
	if o.FullPhysicalCPUs {
		unit = t.ThreadsPerCore()
	}
	nodes := t.groups(free, byNode)
	names := make([]int, 0, len(nodes))
	for name := range nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) > maxDistributed {
		return nil
	}
	for count := 1; count <= len(names); count++ {
		var best map[int]int
		balance := math.Inf(1)
		combinations(names, count, func(chosen []int) {
			shares := divide(nodes, chosen, n, unit)
			if shares == nil {
				return
			}
			if b := imbalance(nodes, names, shares); b < balance {
				best, balance = shares, b
			}
		})
		if best == nil {
			continue
		}
		var taken Set
		for name, share := range best {
			taken = taken.Union(t.pack(nodes[name], share, o))
		}
		return taken
	}
	return nil
}

// divide gives each chosen node an equal share, and what is left in units to those with the
// most free CPUs. It returns nil if a node has too few.
func divide(nodes map[int]Set, chosen []int, n, unit int) map[int]int {
	each := n / len(chosen) / unit * unit
	rest := n - each*len(chosen)
	if each == 0 {
		return nil
	}
	shares := map[int]int{}
	for _, name := range chosen {
		if len(nodes[name]) < each {
			return nil
		}
		shares[name] = each
	}
	order := slices.Clone(chosen)
	for rest > 0 {
		slices.SortFunc(order, func(a, b int) int {
			if x, y := len(nodes[a])-shares[a], len(nodes[b])-shares[b]; x != y {
				return y - x
			}
			return a - b
		})
		more := min(unit, rest)
		if len(nodes[order[0]])-shares[order[0]] < more {
			return nil
		}
		shares[order[0]] += more
		rest -= more
	}
	return shares
}

// imbalance is the standard deviation of the CPUs that stay free in each NUMA node.
func imbalance(nodes map[int]Set, names []int, shares map[int]int) float64 {
	sum, squares := 0.0, 0.0
	for _, name := range names {
		left := float64(len(nodes[name]) - shares[name])
		sum, squares = sum+left, squares+left*left
	}
	mean := sum / float64(len(names))
	return math.Sqrt(math.Max(squares/float64(len(names))-mean*mean, 0))
}

// combinations calls use with each choice of count of the names, in order.
func combinations(names []int, count int, use func(chosen []int)) {
	chosen := make([]int, 0, count)
	var choose func(from int)
	choose = func(from int) {
		if len(chosen) == count {
			use(slices.Clone(chosen))
			return
		}
		for i := from; i < len(names); i++ {
			chosen = append(chosen, names[i])
			choose(i + 1)
			chosen = chosen[:len(chosen)-1]
		}
	}
	choose(0)
}
