package memory

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/node/topology"
)

// The policies, by the kubelet's names.
const (
	PolicyNone   = "None"
	PolicyStatic = "Static"
)

// ParseReserved parses reserved memory in the form of the kubelet's flag:
// 0:memory=1Gi,hugepages-1Gi=2Gi;1:memory=1Gi. A node may occur several times, with other types.
func ParseReserved(text string) (Nodes, error) {
	reserved := Nodes{}
	for entry := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		number, list, ok := strings.Cut(entry, ":")
		id, err := strconv.Atoi(strings.TrimSpace(number))
		if !ok || err != nil || id < 0 || id >= topology.MaxNode {
			return nil, fmt.Errorf("%q must be a number of a NUMA node and its reserved memory, such as 0:memory=1Gi", entry)
		}
		if reserved[id] == nil {
			reserved[id] = Amounts{}
		}
		for pair := range strings.SplitSeq(list, ",") {
			key, value, _ := strings.Cut(pair, "=")
			name := v1.ResourceName(strings.TrimSpace(key))
			if name != v1.ResourceMemory && !strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				return nil, fmt.Errorf("NUMA node %d: %q is no type of memory; use memory, or hugepages-SIZE", id, name)
			}
			if _, twice := reserved[id][name]; twice {
				return nil, fmt.Errorf("NUMA node %d: %s is reserved twice; remove one", id, name)
			}
			quantity, err := resource.ParseQuantity(strings.TrimSpace(value))
			if err != nil || quantity.Sign() <= 0 {
				return nil, fmt.Errorf("NUMA node %d: %s: %q must be an amount above 0, such as 1Gi", id, name, value)
			}
			reserved[id][name] = quantity.Value()
		}
	}
	return reserved, nil
}

// String is the form that ParseReserved parses.
func (n Nodes) String() string {
	var entries []string
	for _, id := range slices.Sorted(maps.Keys(n)) {
		var pairs []string
		for _, name := range slices.Sorted(maps.Keys(n[id])) {
			pairs = append(pairs, string(name)+"="+bytesText(n[id][name]))
		}
		entries = append(entries, fmt.Sprintf("%d:%s", id, strings.Join(pairs, ",")))
	}
	return strings.Join(entries, ";")
}

// CheckReserved validates the reserved memory of a machine by the kubelet's rules. fixed and
// relative are what is not available to pods in total: what is reserved, and the hard eviction
// threshold; relative is a threshold in percent of the capacity. Unlike at the kubelet, half of
// relative to twice as much is valid: the capacity changes by a little with the kernel, and the node must
// start after an update.
func CheckReserved(machine, reserved Nodes, fixed, relative int64) error {
	reservation := fixed + relative
	for _, id := range slices.Sorted(maps.Keys(reserved)) {
		if _, ok := machine[id]; !ok {
			return fmt.Errorf("the reserved memory configuration references a NUMA node %d that does not exist on this "+
				"machine; it has the NUMA nodes %s", id, machine.mask())
		}
		for _, name := range slices.Sorted(maps.Keys(reserved[id])) {
			if name != v1.ResourceMemory {
				return fmt.Errorf("NUMA node %d: %s cannot be reserved, because systemReserved and kubeReserved have no "+
					"hugepages; remove it", id, name)
			}
			if amount := reserved[id][name]; amount > machine[id][name] {
				return fmt.Errorf("NUMA node %d has %s of memory, and %s are reserved; reserve less", id,
					bytesText(machine[id][name]), bytesText(amount))
			}
		}
	}
	sum := reserved.Total(v1.ResourceMemory)
	if sum != reservation && (sum < fixed+relative/2 || sum > fixed+2*relative) {
		return fmt.Errorf("the total amount %q of type %q is not equal to the value %q determined by Node Allocatable "+
			"feature, which is systemReserved, kubeReserved and the threshold memory.available of evictionHard together; "+
			"reserve that much on the NUMA nodes together, such as %s",
			bytesText(sum), v1.ResourceMemory, bytesText(reservation), machine.example(reservation))
	}
	if reservation <= 0 {
		return errors.New("you should specify the system reserved memory; set systemReserved and reservedMemory")
	}
	return nil
}

// example returns a value of reserved memory with a sum, as far as possible on the first node.
func (n Nodes) example(sum int64) string {
	example := Nodes{}
	for _, id := range n.mask().Nodes() {
		if amount := min(sum, n[id][v1.ResourceMemory]); amount > 0 {
			example[id], sum = Amounts{v1.ResourceMemory: amount}, sum-amount
		}
	}
	return example.String()
}

func bytesText(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
