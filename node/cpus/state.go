package cpus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/atomicfile"
)

// stateVersion is the version of the file. A later one is an error: its assignments could be
// lost.
const stateVersion = 1

// state is the content of the file. Assignments are void after a boot, when no container runs.
type state struct {
	Version int    `json:"version"`
	Policy  string `json:"policyName"`
	BootID  string `json:"bootID"`
	// Pods are the pods with exclusive CPUs.
	Pods map[types.UID]podState `json:"pods"`
}

// podState are the exclusive CPUs of one pod by container.
type podState struct {
	// Name is namespace/name, for messages.
	Name       string         `json:"name"`
	Containers map[string]Set `json:"containers"`
}

// all returns the CPUs of all containers.
func (p podState) all() (set Set) {
	for _, cpus := range p.Containers {
		set = set.Union(cpus)
	}
	return set
}

// text lists the pods for messages, sorted.
func (s *state) text() string {
	var list []string
	for _, pod := range s.Pods {
		list = append(list, fmt.Sprintf("%s (CPUs %s)", pod.Name, pod.all()))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// File returns the path of the state file in the daemon's root directory.
func File(root string) string { return filepath.Join(root, "cpu_manager_state.json") }

// BootID returns the ID of the present boot, empty if it cannot be read.
func BootID(proc string) string {
	text, _ := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(text))
}

// readState reads the file. A file that is missing, or was written before the boot, has no
// assignments.
func readState(file, boot string) (*state, error) {
	empty := &state{Version: stateVersion, Policy: PolicyStatic, BootID: boot, Pods: map[types.UID]podState{}}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read the assigned CPUs: %w", err)
	}
	const remedy = "remove it to start without: containers with exclusive CPUs then share them until their pods are replaced"
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("failed to read the assigned CPUs: %s is invalid: %w; %s", file, err, remedy)
	}
	if s.Version != stateVersion {
		return nil, fmt.Errorf("failed to read the assigned CPUs: %s has version %d, and this podstead knows version %d; start the podstead that wrote it, or %s", file, s.Version, stateVersion, remedy)
	}
	if s.BootID != boot {
		return empty, nil
	}
	if s.Pods == nil {
		s.Pods = map[types.UID]podState{}
	}
	return s, nil
}

// CheckNone returns an error if containers have exclusive CPUs although the policy is none: the
// policy was changed while they run. Otherwise it removes the file.
func CheckNone(file, boot string) error {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := readState(file, boot)
	if err != nil {
		return err
	}
	if len(s.Pods) > 0 {
		return fmt.Errorf("cpuManagerPolicy: the configured policy %q differs from %q in the state file %s, and pods run with exclusive CPUs: %s; "+
			"set it to %s and remove these pods first, or remove the file: all containers then keep the CPUs that they have until their pods are replaced",
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
