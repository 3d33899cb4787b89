package cri

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/internal/cgroupvalues"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// The swap of a container of a Burstable pod is the share that its request is of the host's
// memory; no other container swaps.
func TestLimitedSwap(t *testing.T) {
	g := testConfig() // on a host of 16 GiB
	g.cgroup = cgroupvalues.Settings{V2: true, SwapLimit: true, Swap: 4 << 30}
	for name, c := range map[string]struct {
		request, limit string
		priority       int32
		limited        int64
		unified        string
	}{
		"a limit":          {"- 1Gi", "- 2Gi", 0, 2<<30 + 256<<20, ""},
		"no limit":         {"- 1Gi", "", 0, 0, "268435456"},
		"Guaranteed":       {"1 1Gi", "1 1Gi", 0, 1 << 30, ""},
		"request is limit": {"- 1Gi", "- 1Gi", 0, 1 << 30, ""},
		"BestEffort":       {"", "", 0, 0, "0"},
		"no memory":        {"1 -", "", 0, 0, "0"},
		"critical":         {"- 1Gi", "", podinfo.CriticalPriority, 0, "0"},
		"more than there":  {"- 32Gi", "", 0, 0, "0"},
	} {
		pod := desiredPod("", []string{"a"})
		pod.Spec.Priority = &c.priority
		pod.Spec.Containers[0].Resources = requirements(c.request, c.limit)
		got := g.containerResources(pod, &pod.Spec.Containers[0], nil)
		if got.MemorySwapLimitInBytes != c.limited || got.Unified["memory.swap.max"] != c.unified {
			t.Errorf("%s: memory and swap are %d, swap is %q", name, got.MemorySwapLimitInBytes, got.Unified["memory.swap.max"])
		}
	}
	g.cgroup.Swap = 0
	pod := desiredPod("", []string{"a"})
	pod.Spec.Containers[0].Resources = requirements("- 1Gi", "- 2Gi")
	if got := g.containerResources(pod, &pod.Spec.Containers[0], nil); got.MemorySwapLimitInBytes != 2<<30 {
		t.Errorf("NoSwap: memory and swap are %d", got.MemorySwapLimitInBytes)
	}
}

func TestMemoryQoS(t *testing.T) {
	for name, c := range map[string]struct {
		request, limit string
		reserve        bool
		high, min, low string
	}{
		"between request and limit": {"- 100Mi", "- 200Mi", false, "199229440", "0", "0"},
		"without a limit":           {"- 1Gi", "", false, "3972841472", "0", "0"},
		"without a request":         {"0 -", "- 200Mi", false, "188743680", "0", "0"},
		"Guaranteed":                {"1 1Gi", "1 1Gi", true, "max", "1073741824", "0"},
		"Burstable":                 {"- 100Mi", "- 200Mi", true, "199229440", "0", "104857600"},
		"BestEffort":                {"", "", true, "max", "0", "0"},
	} {
		g := testConfig()
		g.cgroup = cgroupvalues.Settings{V2: true,
			MemoryQoS: &cgroupvalues.MemoryQoS{ThrottlingFactor: 0.9, Reserve: c.reserve, Allocatable: 4 << 30}}
		pod := desiredPod("", []string{"a"})
		pod.Spec.Containers[0].Resources = requirements(c.request, c.limit)
		got := g.containerResources(pod, &pod.Spec.Containers[0], nil).Unified
		if got["memory.high"] != c.high || got["memory.min"] != c.min || got["memory.low"] != c.low {
			t.Errorf("%s: %v", name, got)
		}
	}
	pod := desiredPod("", []string{"a"})
	pod.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: requirements("- 1Gi", "").Requests}
	g := testConfig()
	g.cgroup = cgroupvalues.Settings{V2: true}
	if got := g.containerResources(pod, &pod.Spec.Containers[0], nil).Unified; len(got) != 1 ||
		got["memory.oom.group"] != "1" {
		t.Errorf("without memory QoS: %v", got)
	}
}

// A container without a limit has that of its pod in its cgroup, and keeps its own weight.
func TestLimitsOfThePod(t *testing.T) {
	g := testConfig()
	g.cgroup = cgroupvalues.Settings{V2: true, SwapLimit: true, PageSizes: []string{"2Mi", "1Gi"},
		MemoryQoS: &cgroupvalues.MemoryQoS{ThrottlingFactor: 0.9, Allocatable: 4 << 30}}
	for name, c := range map[string]struct {
		request, limit, podLimit string
		quota, memory, shares    int64
		high                     string
	}{
		"none of its own":        {"", "", "2 2Gi", 200_000, 2 << 30, 2, "max"},
		"a request":              {"500m 1Gi", "", "2 2Gi", 200_000, 2 << 30, 512, "max"},
		"own cpu":                {"", "1 -", "2 2Gi", 100_000, 2 << 30, 1024, "max"},
		"own memory":             {"- 100Mi", "- 200Mi", "2 2Gi", 200_000, 200 << 20, 2, "199229440"},
		"pod without a limit":    {"- 1Gi", "", "- -", 0, 0, 2, "3972841472"},
		"pod with a cpu limit":   {"", "", "1 -", 100_000, 0, 2, "max"},
		"no resources of a pod":  {"", "", "", 0, 0, 2, "max"},
		"own limits, both lower": {"", "1 1Gi", "2 2Gi", 100_000, 1 << 30, 1024, "966365184"},
	} {
		pod := desiredPod("", []string{"a"})
		pod.Spec.Containers[0].Resources = requirements(c.request, c.limit)
		if c.podLimit != "" {
			whole := requirements("", c.podLimit)
			whole.Limits["hugepages-2Mi"] = resource.MustParse("4Mi")
			pod.Spec.Resources = &whole
		}
		got := g.containerResources(pod, &pod.Spec.Containers[0], nil)
		if got.CpuQuota != c.quota || got.MemoryLimitInBytes != c.memory || got.CpuShares != c.shares ||
			got.MemorySwapLimitInBytes != c.memory || got.Unified["memory.high"] != c.high {
			t.Errorf("%s: %+v", name, got)
		}
		if want := pod.Spec.Resources != nil; (got.HugepageLimits[0].Limit == 4<<20) != want ||
			got.HugepageLimits[1].Limit != 0 {
			t.Errorf("%s: %+v", name, got.HugepageLimits)
		}
	}
}
