package cpus

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The policies, by the kubelet's names.
const (
	PolicyNone   = "none"
	PolicyStatic = "static"
)

// Options are cpuManagerPolicyOptions of the policy static. The zero value packs CPUs, and lets
// the shared pool use the reserved CPUs.
type Options struct {
	// FullPhysicalCPUs assigns whole cores only (full-pcpus-only).
	FullPhysicalCPUs bool
	// DistributeAcrossNUMA takes the same number of CPUs from each of several NUMA nodes, if one
	// has too few (distribute-cpus-across-numa).
	DistributeAcrossNUMA bool
	// StrictReservation keeps containers off the reserved CPUs (strict-cpu-reservation).
	StrictReservation bool
	// AlignByUncoreCache takes CPUs of as few uncore caches as possible
	// (prefer-align-cpus-by-uncorecache).
	AlignByUncoreCache bool
	// AlignBySocket aligns CPUs to sockets instead of NUMA nodes, with a topology manager policy
	// (align-by-socket).
	AlignBySocket bool
}

// ParseOptions parses cpuManagerPolicyOptions. Each value is "true" or "false".
func ParseOptions(values map[string]string) (o Options, err error) {
	fields := map[string]*bool{
		"full-pcpus-only": &o.FullPhysicalCPUs, "distribute-cpus-across-numa": &o.DistributeAcrossNUMA,
		"strict-cpu-reservation": &o.StrictReservation, "prefer-align-cpus-by-uncorecache": &o.AlignByUncoreCache,
		"align-by-socket": &o.AlignBySocket,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		to, ok := fields[name]
		if !ok {
			return Options{}, fmt.Errorf("%q is not a supported option; use %s", name,
				strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
		}
		if *to, err = strconv.ParseBool(values[name]); err != nil {
			return Options{}, fmt.Errorf("%s: %q must be \"true\" or \"false\"", name, values[name])
		}
	}
	if o.AlignByUncoreCache && o.DistributeAcrossNUMA {
		return Options{}, fmt.Errorf("prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa exclude each other; " +
			"remove one of them")
	}
	return o, nil
}

// Reserved returns the reserved CPUs: those of reservedSystemCPUs, else as many as the
// reserved amount in millicores needs, the lowest ones first. Without any the policy static
// cannot work, because the shared pool could become empty.
func Reserved(t Topology, explicit Set, milli int64) (Set, error) {
	if len(explicit) == 0 {
		n := int((milli + 999) / 1000)
		switch {
		case n == 0:
			return nil, fmt.Errorf("requires reserved CPUs, so that other containers have some: set reservedSystemCPUs, such " +
				"as 0, or cpu in systemReserved")
		case n >= len(t):
			return nil, fmt.Errorf("%d reserved CPUs leave none of the %d of this node; reserve less cpu in systemReserved "+
				"and kubeReserved", n, len(t))
		}
		return t.pack(t.All(), n, Options{}), nil
	}
	if missing := explicit.Minus(t.All()); len(missing) > 0 {
		return nil, fmt.Errorf("this node has no CPU %s; its CPUs are %s", missing, t.All())
	}
	if len(explicit) == len(t) {
		return nil, fmt.Errorf("%s are all CPUs of this node; leave at least one for pods", explicit)
	}
	return explicit, nil
}
