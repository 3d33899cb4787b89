package machine

import (
	"fmt"
	"strconv"
	"strings"
)

// memoryConfig lets containers swap, throttles them and protects what they request.
const memoryConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
memorySwap: {swapBehavior: LimitedSwap}
featureGates: {MemoryQoS: true}
memoryThrottlingFactor: 0.5
memoryReservationPolicy: TieredReservation
`

// With LimitedSwap a container of a Burstable pod may swap in proportion to its memory request, and
// no other one. Memory QoS throttles it, and protects the requested memory in the cgroups of
// containers, pods and tiers.
func testSwapAndMemoryQoS(m *Machine) {
	t := m.t
	m.Write("/root/memory.yaml", memoryConfig)
	m.Sh("fallocate -l 128M /swap && chmod 600 /swap && mkswap /swap && swapon /swap")
	serviceWith(m, "--config /root/memory.yaml")
	apply(m,
		testPod{name: "g", revision: "1", container: limits("limits: {cpu: 100m, memory: 64Mi}")},
		testPod{name: "b", revision: "1", container: limits("requests: {memory: 32Mi}, limits: {memory: 64Mi}")},
	)
	awaitReady(m, settle, "g", "b")
	total, err := strconv.ParseInt(m.Sh("awk '/MemTotal/ { print $2 }' /proc/meminfo"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	swap, err := strconv.ParseInt(m.Sh("awk '/SwapTotal/ { print $2 }' /proc/meminfo"), 10, 64)
	if err != nil || swap == 0 {
		t.Fatalf("the swap of the machine is %d kB: %v", swap, err)
	}
	g, b := cgroup(m, "g"), cgroup(m, "b")
	parent := func(dir string) string { return dir[:strings.LastIndex(dir, "/")] }
	limit := int64(float64(32<<20) / float64(total<<10) * float64(swap<<10))
	for file, want := range map[string]int64{
		g + "/memory.swap.max": 0, b + "/memory.swap.max": limit / 4096 * 4096,
		g + "/memory.min": 64 << 20, b + "/memory.low": 32 << 20, b + "/memory.high": 48 << 20,
		parent(g) + "/memory.min": 64 << 20, parent(b) + "/memory.low": 32 << 20,
		parent(parent(b)) + "/memory.low": 32 << 20, parent(parent(g)) + "/memory.min": 96 << 20,
	} {
		if got := m.Sh("cat " + file); got != fmt.Sprint(want) {
			t.Errorf("%s is %s, want %d", file, got, want)
		}
	}
	if got := m.Sh("cat " + g + "/memory.high"); got != "max" {
		t.Errorf("the Guaranteed pod is throttled at %s", got)
	}
	m.Sh("rm -f /etc/pods/*")
	awaitInstances(m, nil, settle)
	m.Sh("swapoff /swap && rm /swap")
}
