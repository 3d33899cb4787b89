package httpapi

import (
	"context"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kubelet configures the endpoints that only a kubelet has.
type Kubelet struct {
	// Running returns the pods in the runtime, with names and containers only.
	Running func() []v1.Pod
	// Config returns the settings of the daemon as fields of a KubeletConfiguration.
	Config func(ctx context.Context) map[string]any
	// MachineInfo returns the hardware of the host.
	MachineInfo func() MachineInfo
	// LogRoot is the directory that /logs/ serves, Checkpoints the directory to which
	// /checkpoint writes.
	LogRoot, Checkpoints string
	// Checkpoint writes the state of a running container to a file. The error of a runtime that
	// cannot is errors.ErrUnsupported.
	Checkpoint func(ctx context.Context, containerID, file string, timeout time.Duration) error
	// Profiling enables /debug/pprof/.
	Profiling bool
}

// MachineInfo is the response of /spec/, with the names of cAdvisor.
type MachineInfo struct {
	Timestamp  time.Time `json:"timestamp"`
	Cores      int       `json:"num_cores"`
	Memory     uint64    `json:"memory_capacity"`
	MachineID  string    `json:"machine_id"`
	SystemUUID string    `json:"system_uuid"`
	BootID     string    `json:"boot_id"`
	// CloudProvider is always Unknown: no cloud API is queried.
	CloudProvider string `json:"cloud_provider"`
}

// configzTimeout limits the time for asking the runtime for its cgroup driver.
const configzTimeout = 2 * time.Second

// runningPods responds with the pods in the runtime, independent of the manifests.
func runningPods(running func() []v1.Pod) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := v1.PodList{Items: append([]v1.Pod{}, running()...)}
		list.Kind, list.APIVersion = "PodList", "v1"
		writeJSON(w, list)
	}
}

func configz(config func(context.Context) map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), configzTimeout)
		defer cancel()
		writeJSON(w, map[string]any{"kubeletconfig": config(ctx)})
	}
}

func spec(machine func() MachineInfo) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, machine()) }
}
