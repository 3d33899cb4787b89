package cgroupvalues

import "os"

// Limits of the kernel's CPU controller, as the kubelet uses them.
const (
	sharesPerCPU = 1024
	minShares    = 2
	maxShares    = 262144
	milliPerCPU  = 1000
	// defaultQuotaPeriod is the default of cpuCFSQuotaPeriod, minQuota the
	// smallest quota that the kernel accepts, both in microseconds.
	defaultQuotaPeriod = 100_000
	minQuota           = 1000
)

// Settings are the properties of the node that decide how amounts become cgroup
// values. The zero value stands for cgroup v1 without swap accounting.
type Settings struct {
	// V2 reports whether the controllers are in the unified hierarchy.
	V2 bool
	// SwapLimit reports whether the kernel can limit swap.
	SwapLimit bool
	// Swap is what the containers of Burstable pods may swap together, in bytes: the node's swap
	// with LimitedSwap, 0 with NoSwap.
	Swap int64
	// MemoryQoS are the settings of memory QoS, nil without it.
	MemoryQoS *MemoryQoS
	// PageSizes are the hugepage sizes that the kernel supports, such as 2Mi.
	PageSizes []string
	// NoCPUQuota leaves CPU limits unenforced (cpuCFSQuota: false).
	NoCPUQuota bool
	// QuotaPeriod is the CFS period in microseconds; 0 stands for 100 ms.
	QuotaPeriod int64
	// SingleProcessOOMKill lets the kernel kill a single process of a container
	// that is out of memory; otherwise it kills all of them (v2 only).
	SingleProcessOOMKill bool
}

// MemoryQoS are the settings of memory QoS (v2 only).
type MemoryQoS struct {
	// ThrottlingFactor is where between its request and its limit a container is throttled, from
	// above 0 to 1.
	ThrottlingFactor float64
	// Reserve protects the requested memory from reclaim (TieredReservation).
	Reserve bool
	// Allocatable stands for the limit of a container that has none, in bytes.
	Allocatable int64
}

// High returns memory.high of a container with a memory request and limit in bytes, a limit of
// 0 standing for none: the kubelet's formula, rounded down to pages. It is 0 for none.
func (m *MemoryQoS) High(request, limit int64) int64 {
	if request == limit {
		return 0
	}
	if limit == 0 {
		limit = m.Allocatable
	}
	page := int64(os.Getpagesize())
	high := int64(float64(request)+float64(limit-request)*m.ThrottlingFactor) / page * page
	if high <= request {
		return 0
	}
	return high
}

// SwapOf returns how much a container may swap that requests memory, in bytes: the share of the
// swap that its request is of the host's memory, as at the kubelet.
func (s Settings) SwapOf(request, hostMemory int64) int64 {
	if s.Swap <= 0 || hostMemory <= 0 || request <= 0 || request > hostMemory {
		return 0
	}
	return int64(float64(request) / float64(hostMemory) * float64(s.Swap))
}

func (s Settings) period() int64 {
	if s.QuotaPeriod == 0 {
		return defaultQuotaPeriod
	}
	return s.QuotaPeriod
}

// Quota returns the CFS quota and period for a CPU limit in millicores, both in
// microseconds. The quota is 0 without a limit, or if limits are not enforced.
func (s Settings) Quota(milli int64) (quota, period int64) {
	period = s.period()
	if milli == 0 || s.NoCPUQuota {
		return 0, period
	}
	return max(milli*period/milliPerCPU, minQuota), period
}

// CPUShares returns the value of cpu.shares for a CPU request in millicores.
func CPUShares(milli int64) int64 {
	return min(max(milli*sharesPerCPU/milliPerCPU, minShares), maxShares)
}

// SharesOfWeight converts a cpu.weight of cgroup v2 (1 to 10000) to shares, as cAdvisor
// does.
func SharesOfWeight(weight uint64) uint64 {
	const maxWeight = 10000
	weight = min(max(weight, 1), maxWeight)
	return minShares + (weight-1)*(maxShares-minShares)/(maxWeight-1)
}
