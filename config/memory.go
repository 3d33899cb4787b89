package config

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/node/cgroup"
)

// Memory are the settings of swap and memory QoS.
type Memory struct {
	// LimitedSwap lets the containers of Burstable pods use the node's swap.
	LimitedSwap bool
	// QoS throttles containers before their memory limit, at Throttling between request and
	// limit. Reserve protects the memory that they request from reclaim.
	QoS        bool
	Throttling float64
	Reserve    bool
}

// merge takes the settings of the file. They have no flags, as at the kubelet.
func (m *Memory) merge(file *kubeletconfig.Memory) {
	*m = Memory{
		LimitedSwap: file.Swap == kubeletconfig.LimitedSwap,
		QoS:         file.QoS, Throttling: kubeletconfig.DefaultThrottling, Reserve: file.Reservation == kubeletconfig.TieredReservation,
	}
	if file.Throttling != nil {
		m.Throttling = *file.Throttling
	}
}

// checkHost returns an error for settings that this host cannot honour. root is that of
// Cgroups.checkHost.
func (m *Memory) checkHost(root string) error {
	if !m.LimitedSwap && !m.QoS {
		return nil
	}
	r, err := cgroup.OpenReader(filepath.Join(cmp.Or(root, "/"), "proc/self/mountinfo"))
	if err != nil {
		return nil // the host has no cgroups at all, which podstead check reports
	}
	const boot = "boot with systemd.unified_cgroup_hierarchy=1"
	var errs []error
	switch {
	case m.LimitedSwap && !r.V2():
		errs = append(errs, errors.New("memorySwap: LimitedSwap is not supported on this node: it needs cgroup v2; set swapBehavior to NoSwap, or "+boot))
	case m.LimitedSwap && !r.SwapLimit():
		errs = append(errs, errors.New("memorySwap: LimitedSwap is not supported on this node: its kernel cannot limit the swap of a cgroup, there is no memory.swap.max; set swapBehavior to NoSwap, or boot with swapaccount=1"))
	}
	if m.QoS && !r.V2() {
		errs = append(errs, errors.New("featureGates: MemoryQoS is not supported on this node: it needs cgroup v2; remove it, or "+boot))
	}
	return errors.Join(errs...)
}

// fields are those of a KubeletConfiguration.
func (m *Memory) fields() map[string]any {
	swap, reservation := kubeletconfig.NoSwap, "None"
	if m.LimitedSwap {
		swap = kubeletconfig.LimitedSwap
	}
	if m.Reserve {
		reservation = kubeletconfig.TieredReservation
	}
	fields := map[string]any{
		"memorySwap": map[string]any{"swapBehavior": swap}, "memoryThrottlingFactor": m.Throttling, "memoryReservationPolicy": reservation,
	}
	if m.QoS {
		fields["featureGates"] = map[string]any{"MemoryQoS": true}
	}
	return fields
}
