package memory

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/assignments"
	"github.com/podstead/podstead/node/topology"
)

// state is the content of the file: the pods with memory of their own.
type state = assignments.State[podState]

// podState is the memory of one pod by container.
type podState struct {
	// Name is namespace/name, for messages.
	Name       string                    `json:"name"`
	Containers map[string]containerState `json:"containers"`
}

// containerState is the memory of one container.
type containerState struct {
	// NUMANodes are the nodes from which it has all of its memory.
	NUMANodes []int `json:"numaNodes"`
	// Requested is what it requests.
	Requested Amounts `json:"requested"`
	// Taken is what is taken from each node for it. An init container leaves it to the containers
	// after it.
	Taken Nodes `json:"taken"`
}

func (c containerState) mask() topology.Mask { return topology.NewMask(c.NUMANodes...) }

// podNames lists the pods for messages, sorted.
func podNames(s *state) string {
	var list []string
	for _, pod := range s.Pods {
		list = append(list, pod.Name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// takenBy returns what is taken from the nodes for all pods.
func takenBy(s *state) Nodes {
	sum := Nodes{}
	for _, pod := range s.Pods {
		for _, c := range pod.Containers {
			for id, amounts := range c.Taken {
				for name, amount := range amounts {
					sum.add(id, name, amount)
				}
			}
		}
	}
	return sum
}

func (n Nodes) add(id int, name v1.ResourceName, amount int64) {
	if n[id] == nil {
		n[id] = Amounts{}
	}
	n[id][name] += amount
}

// File returns the path of the state file in the daemon's root directory.
func File(root string) string { return filepath.Join(root, "memory_manager_state.json") }

// stateFormat is the file. It means nothing after a boot.
var stateFormat = statefile.Format[state]{
	Name: "memory_manager_state.json", Version: assignments.Version, Limit: assignments.Limit, Damaged: statefile.Refuse,
	Newer:      statefile.Refuse,
	Durability: statefile.Atomic, Repeat: true, Encode: assignments.Encode[podState],
}

func stateFile(path, boot string, disk statefile.Disk) assignments.File[podState] {
	return assignments.File[podState]{
		File: stateFormat.File(path, disk), BootID: boot, Policy: PolicyStatic, Subject: "memory",
		Lost:    "the memory of pods that run is then assigned to others too, until they are replaced",
		Unsaved: "Failed to record assigned memory; a restart of podstead would forget it, retrying",
	}
}

// openState reads the file, and checks the NUMA nodes in it.
func openState(file assignments.File[podState], log *slog.Logger) (*assignments.Ledger[podState], error) {
	s, err := assignments.Open(file, func() {}, log)
	if err != nil {
		return nil, err
	}
	for _, pod := range s.Pods {
		for name, c := range pod.Containers {
			if slices.ContainsFunc(c.NUMANodes, func(id int) bool { return id < 0 || id >= topology.MaxNode }) ||
				len(c.NUMANodes) == 0 {
				return nil, file.Invalid(fmt.Errorf("container %s of pod %s has the NUMA nodes %v", name, pod.Name, c.NUMANodes))
			}
		}
	}
	return s, nil
}

// CheckNone returns an error if containers have memory of their own although the policy is None:
// the policy was changed while they run. Otherwise it removes the file.
func CheckNone(file, boot string) error {
	return stateFile(file, boot, statefile.Disk{}).CheckUnused(func(s *state) error {
		return fmt.Errorf("memoryManagerPolicy: the configured policy %q differs from %q in the state file %s, and pods "+
			"run with memory of NUMA nodes: %s; "+
			"set it to %s and remove these pods first, or remove the file: their containers then keep their NUMA nodes until "+
			"they are replaced",
			PolicyNone, s.Policy, file, podNames(s), s.Policy)
	})
}
