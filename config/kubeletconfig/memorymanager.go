package kubeletconfig

import (
	"fmt"
	"math"
)

// MemoryManager are the fields of the memory manager.
type MemoryManager struct {
	// Policy is empty if not set.
	Policy string
	// Reserved is reservedMemory, nil if not set.
	Reserved []MemoryReservation
}

// MemoryReservation is the reserved memory of one NUMA node. The caller of this package validates
// the amounts.
type MemoryReservation struct {
	NUMANode int
	Limits   map[string]string
}

// memoryManagerFields are the fields of MemoryManager.
var memoryManagerFields = map[string]func(*parser, string, any){
	"memoryManagerPolicy": func(p *parser, n string, v any) { p.text(n, v, &p.cfg.MemoryManager.Policy) },
	"reservedMemory":      (*parser).reservedMemory,
}

func (p *parser) reservedMemory(name string, v any) {
	list, ok := v.([]any)
	if !ok {
		p.fail(name, "must be a list, such as [{numaNode: 0, limits: {memory: 1Gi}}]")
		return
	}
	p.cfg.MemoryManager.Reserved = []MemoryReservation{}
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", name, i)
		m, ok := e.(map[string]any)
		if !ok || len(m) == 0 {
			p.fail(at, "must have numaNode and limits, such as {numaNode: 0, limits: {memory: 1Gi}}")
			continue
		}
		node, limits := new(int), map[string]string(nil)
		for _, key := range sortedKeys(m) {
			switch key {
			case "numaNode":
				p.number(at+"."+key, m[key], 0, math.MaxInt32, &node)
			case "limits":
				p.amounts(at+"."+key, m[key], &limits)
			default:
				p.fail(at+"."+key, "unknown field; did you mean numaNode or limits?")
			}
		}
		if len(limits) == 0 {
			p.fail(at+".limits", "must have an amount, such as {memory: 1Gi}")
			continue
		}
		p.cfg.MemoryManager.Reserved = append(p.cfg.MemoryManager.Reserved, MemoryReservation{*node, limits})
	}
}
