package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
	"github.com/podstead/podstead/node/topology"
)

// stateVersion is the version of the file. A later one is an error: its assignments could be lost.
const stateVersion = 1

// state is the content of the file. Assignments are void after a boot, when no container runs.
type state struct {
	Version int    `json:"version"`
	Policy  string `json:"policyName"`
	BootID  string `json:"bootID"`
	// Pods are the pods with memory of their own.
	Pods map[types.UID]podState `json:"pods"`
}

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

// text lists the pods for messages, sorted.
func (s *state) text() string {
	var list []string
	for _, pod := range s.Pods {
		list = append(list, pod.Name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// taken returns what is taken from the nodes for all pods.
func (s *state) taken() Nodes {
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

// readState reads the file. A file that is missing, or was written before the boot, has no
// assignments.
func readState(file, boot string) (*state, error) {
	empty := &state{Version: stateVersion, Policy: PolicyStatic, BootID: boot, Pods: map[types.UID]podState{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the assigned memory: %w", err)
	}
	const remedy = "remove it to start without: the memory of pods that run is then assigned to others too, until they are replaced"
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("failed to read the assigned memory: %s is invalid: %w; %s", file, err, remedy)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("failed to read the assigned memory: %s has version %d, and this podstead knows version %d; start the podstead that wrote it, or %s", file, s.Version, stateVersion, remedy)
	}
	if s.BootID != boot {
		return empty, nil
	}
	if s.Pods == nil {
		s.Pods = map[types.UID]podState{}
	}
	for _, pod := range s.Pods {
		for name, c := range pod.Containers {
			if slices.ContainsFunc(c.NUMANodes, func(id int) bool { return id < 0 || id >= topology.MaxNode }) || len(c.NUMANodes) == 0 {
				return nil, fmt.Errorf("failed to read the assigned memory: %s is invalid: container %s of pod %s has the NUMA nodes %v; %s", file, name, pod.Name, c.NUMANodes, remedy)
			}
		}
	}
	return s, nil
}

// CheckNone returns an error if containers have memory of their own although the policy is None:
// the policy was changed while they run. Otherwise it removes the file.
func CheckNone(file, boot string) error {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := readState(file, boot)
	if err != nil {
		return err
	}
	if len(s.Pods) > 0 {
		return fmt.Errorf("memoryManagerPolicy: the configured policy %q differs from %q in the state file %s, and pods run with memory of NUMA nodes: %s; "+
			"set it to %s and remove these pods first, or remove the file: their containers then keep their NUMA nodes until they are replaced",
			PolicyNone, s.Policy, file, s.text(), s.Policy)
	}
	return os.Remove(file)
}

// write writes the state.
func (s *state) write(file string) error {
	data, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Replace(file, append(data, '\n'))
}
