package cpus

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/assignments"
)

// state is the content of the file: the pods with exclusive CPUs.
type state = assignments.State[podState]

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

// podNames lists the pods for messages, sorted.
func podNames(s *state) string {
	var list []string
	for _, pod := range s.Pods {
		list = append(list, fmt.Sprintf("%s (CPUs %s)", pod.Name, pod.all()))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// File returns the path of the state file in the daemon's root directory.
func File(root string) string { return filepath.Join(root, "cpu_manager_state.json") }

// stateFormat is the file. It means nothing after a boot.
var stateFormat = statefile.Format[state]{
	Name: "cpu_manager_state.json", Version: assignments.Version, Limit: assignments.Limit, Damaged: statefile.Refuse,
	Newer:      statefile.Refuse,
	Durability: statefile.Atomic, Repeat: true, Encode: assignments.Encode[podState],
}

func stateFile(path, boot string, disk statefile.Disk) assignments.File[podState] {
	return assignments.File[podState]{
		File: stateFormat.File(path, disk), BootID: boot, Policy: PolicyStatic, Subject: "CPUs",
		Lost:    "containers with exclusive CPUs then share them until their pods are replaced",
		Unsaved: "Failed to record exclusive CPUs; a restart of podstead would forget them, retrying",
	}
}

// CheckNone returns an error if containers have exclusive CPUs although the policy is none: the
// policy was changed while they run. Otherwise it removes the file.
func CheckNone(file, boot string) error {
	return stateFile(file, boot, statefile.Disk{}).CheckUnused(func(s *state) error {
		return fmt.Errorf("cpuManagerPolicy: the configured policy %q differs from %q in the state file %s, and pods run "+
			"with exclusive CPUs: %s; "+
			"set it to %s and remove these pods first, or remove the file: all containers then keep the CPUs that they have "+
			"until their pods are replaced",
			PolicyNone, s.Policy, file, podNames(s), s.Policy)
	})
}
