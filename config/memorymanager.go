package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

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

func (m *MemoryManager) settings() []setting {
	return []setting{
		{
			flag: "memory-manager-policy", field: "memoryManagerPolicy",
			value: choice(&m.Policy, memory.PolicyNone, ": %q is not a policy; use None or Static", memory.PolicyNone,
				memory.PolicyStatic),
			help: "None, or Static: give the containers of Guaranteed pods memory of as few NUMA nodes as possible",
		},
		{
			flag: "reserved-memory", field: "reservedMemory", value: list(&m.reserved).reading(m.read).as(m.reservedMemory),
			check: func(s *setting) {
				var err error
				if m.Reserved, err = memory.ParseReserved(strings.Join(m.reserved, ";")); err != nil {
					s.fail(": %w", err)
				}
			},
			help: "`memory` of NUMA nodes that is reserved for the system, for the policy Static, such as " +
				"0:memory=1Gi;1:memory=512Mi; together as much as --system-reserved, --kube-reserved and memory.available of " +
				"--eviction-hard (may be repeated)",
		},
	}
}

// read reads the field in the form of the flag.
func (m *MemoryManager) read(n node) bool {
	if _, ok := n.value.([]any); !ok {
		n.fail("must be a list, such as [{numaNode: 0, limits: {memory: 1Gi}}]")
		return false
	}
	m.reserved = []string{}
	items, _ := n.items("")
	for _, item := range items {
		if entries, ok := item.value.(map[string]any); !ok || len(entries) == 0 {
			item.fail("must have numaNode and limits, such as {numaNode: 0, limits: {memory: 1Gi}}")
			continue
		}
		fields, _ := item.object("", "numaNode", "limits")
		id, amounts := 0, map[string]string(nil)
		if field, ok := fields["numaNode"]; ok {
			id, _ = field.number(0, math.MaxInt32)
		}
		if field, ok := fields["limits"]; ok {
			amounts, _ = field.amounts()
		}
		if len(amounts) == 0 {
			item.child("limits", nil).fail("must have an amount, such as {memory: 1Gi}")
			continue
		}
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(amounts)) {
			pairs = append(pairs, name+"="+amounts[name])
		}
		m.reserved = append(m.reserved, strconv.Itoa(id)+":"+strings.Join(pairs, ","))
	}
	return true
}

// unused returns a notice about reserved memory without the policy.
func (m *MemoryManager) unused() []string {
	if m.Policy == memory.PolicyStatic || len(m.reserved) == 0 {
		return nil
	}
	return []string{"--reserved-memory (reservedMemory) has no effect without --memory-manager-policy=Static " +
		"(memoryManagerPolicy)"}
}

// checkMemoryManager validates that this host can have the memory manager.
func (o *Options) checkMemoryManager(t *table) {
	m := &o.MemoryManager
	policy, reserved := t.at(&m.Policy), t.at(&m.reserved)
	if m.Policy == memory.PolicyNone || policy.broken || !t.sound(&m.reserved, &o.Cgroups.systemReserved,
		&o.Cgroups.kubeReserved, &o.Eviction.hard) {
		return
	}
	root := cmp.Or(o.host, "/")
	machine, err := memory.ReadNodes(root)
	if err != nil {
		t.fail("%s: %s is not supported on this node: %w; set it to %s", policy, m.Policy, err, memory.PolicyNone)
		return
	}
	fixed, now := o.reservedMemory(0), o.reservedMemory(machine.Total(v1.ResourceMemory))
	if err := memory.CheckReserved(machine, m.Reserved, fixed, now-fixed); err != nil {
		if len(m.Reserved) == 0 {
			t.fail("%s: %s requires %s: %w", policy, m.Policy, both{reserved}, err)
			return
		}
		t.fail("%s: %w", reserved, err)
		return
	}
	if r, err := cgroup.OpenReader(filepath.Join(root, "proc/self/mountinfo")); err == nil && !r.CPUSet() {
		t.fail("%s: %s is not supported on this node: the kernel's cpuset controller is disabled or not mounted; podstead "+
			"check says how to mount it", policy, m.Policy)
	}
	if sum := m.Reserved.Total(v1.ResourceMemory); sum != now {
		m.notice = fmt.Sprintf("--reserved-memory (reservedMemory) is %d bytes, and systemReserved, kubeReserved and "+
			"memory.available in percent of the present capacity are %d; reservedMemory applies to NUMA nodes; set "+
			"memory.available to an amount for one that does not change", sum, now)
	}
}

// reservedMemory returns how much memory is not available to pods: what is reserved, and the hard
// eviction threshold. capacity is that of a threshold in percent.
func (o *Options) reservedMemory(capacity int64) (sum int64) {
	for _, list := range append(slices.Clone(o.Cgroups.Reserved), o.Eviction.HardReserved(memoryList(capacity))) {
		sum += list.Memory().Value()
	}
	return sum
}

// reservedMemory returns the field.
func (m *MemoryManager) reservedMemory() any {
	if len(m.Reserved) == 0 {
		return nil
	}
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(m.Reserved)) {
		limits := map[string]string{}
		for name, amount := range m.Reserved[id] {
			limits[string(name)] = strconv.FormatInt(amount, 10)
		}
		list = append(list, map[string]any{"numaNode": id, "limits": limits})
	}
	return list
}
