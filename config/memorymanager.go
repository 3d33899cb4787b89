package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/memory"
)

// MemoryManager are the settings of the memory manager.
type MemoryManager struct {
	// Policy is memory.PolicyNone or memory.PolicyStatic.
	Policy string
	// Reserved is reservedMemory.
	Reserved memory.Nodes

	reserved []string
	// notice is about an amount in percent of a capacity that was another one.
	notice string
}

func (m *MemoryManager) addFlags(f *pflag.FlagSet) {
	f.StringVar(&m.Policy, "memory-manager-policy", memory.PolicyNone, "None, or Static: give the containers of Guaranteed pods memory of as few NUMA nodes as possible")
	f.StringArrayVar(&m.reserved, "reserved-memory", nil, "`memory` of NUMA nodes that is reserved for the system, for the policy Static, such as 0:memory=1Gi;1:memory=512Mi; together as much as --system-reserved, --kube-reserved and memory.available of --eviction-hard (may be repeated)")
}

// merge applies the settings of the file that no flag sets.
func (m *MemoryManager) merge(file *kubeletconfig.MemoryManager, take func(flag string, set bool, apply func())) {
	take("memory-manager-policy", file.Policy != "", func() { m.Policy = file.Policy })
	take("reserved-memory", file.Reserved != nil, func() {
		m.reserved = nil
		for _, r := range file.Reserved {
			var pairs []string
			for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
				pairs = append(pairs, name+"="+r.Limits[name])
			}
			m.reserved = append(m.reserved, strconv.Itoa(r.NUMANode)+":"+strings.Join(pairs, ","))
		}
	})
}

func (m *MemoryManager) check() (err error) {
	m.Policy = cmp.Or(m.Policy, memory.PolicyNone)
	if m.Policy != memory.PolicyNone && m.Policy != memory.PolicyStatic {
		return fmt.Errorf("--memory-manager-policy: %q is not a policy; use %s or %s", m.Policy, memory.PolicyNone, memory.PolicyStatic)
	}
	if m.Reserved, err = memory.ParseReserved(strings.Join(m.reserved, ";")); err != nil {
		return fmt.Errorf("--reserved-memory: %w", err)
	}
	return nil
}

// unused returns a notice about reserved memory without the policy.
func (m *MemoryManager) unused() []string {
	if m.Policy == memory.PolicyStatic || len(m.reserved) == 0 {
		return nil
	}
	return []string{"--reserved-memory (reservedMemory) has no effect without --memory-manager-policy=Static (memoryManagerPolicy)"}
}

// checkMemoryManager returns an error for a memory manager that this host cannot have.
func (o *Options) checkMemoryManager() error {
	m := &o.MemoryManager
	if m.Policy == memory.PolicyNone {
		return nil
	}
	root := cmp.Or(o.host, "/")
	machine, err := memory.ReadNodes(root)
	if err != nil {
		return fmt.Errorf("--memory-manager-policy: %s is not supported on this node: %w; set it to %s", m.Policy, err, memory.PolicyNone)
	}
	fixed, now := o.reservedMemory(0), o.reservedMemory(machine.Total(v1.ResourceMemory))
	if err := memory.CheckReserved(machine, m.Reserved, fixed, now-fixed); err != nil {
		if len(m.Reserved) == 0 {
			return fmt.Errorf("--memory-manager-policy: %s requires --reserved-memory (reservedMemory): %w", m.Policy, err)
		}
		return fmt.Errorf("--reserved-memory: %w", err)
	}
	if r, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo")); err == nil && !r.CPUSet() {
		return fmt.Errorf("--memory-manager-policy: %s is not supported on this node: the kernel's cpuset controller is disabled or not mounted; podstead check says how to mount it", m.Policy)
	}
	if sum := m.Reserved.Total(v1.ResourceMemory); sum != now {
		m.notice = fmt.Sprintf("--reserved-memory (reservedMemory) is %d bytes, and systemReserved, kubeReserved and memory.available in percent of the present capacity are %d; reservedMemory applies to NUMA nodes; set memory.available to an amount for one that does not change", sum, now)
	}
	return nil
}

// reservedMemory returns how much memory is not available to pods: what is reserved, and the hard
// eviction threshold. capacity is that of a threshold in percent.
func (o *Options) reservedMemory(capacity int64) (sum int64) {
	for _, list := range append(slices.Clone(o.Cgroups.Reserved), o.Eviction.HardReserved(memoryList(capacity))) {
		sum += list.Memory().Value()
	}
	return sum
}

// fields are those of a KubeletConfiguration.
func (m *MemoryManager) fields() map[string]any {
	fields := map[string]any{"memoryManagerPolicy": m.Policy}
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(m.Reserved)) {
		limits := map[string]string{}
		for name, amount := range m.Reserved[id] {
			limits[string(name)] = strconv.FormatInt(amount, 10)
		}
		list = append(list, map[string]any{"numaNode": id, "limits": limits})
	}
	if len(list) > 0 {
		fields["reservedMemory"] = list
	}
	return fields
}
