package httpapi

import (
	"context"
	"net/http"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/httpapi/access"
)

// Kubelet is what only those ask for who know a kubelet.
type Kubelet struct {
	// Running are the pods that the runtime has, with names and containers only.
	Running func() []v1.Pod
	// Config is what the daemon runs with, in the fields of a
	// KubeletConfiguration.
	Config func() map[string]any
	// Machine is what the box is made of.
	MachineInfo func() MachineInfo
	// LogRoot is the folder that /logs/ shows, Checkpoints the one in which
	// /checkpoint puts what it makes.
	LogRoot, Checkpoints string
	// Checkpoint writes the state of a running container to a file.
	Checkpoint func(ctx context.Context, containerID, file string, timeout time.Duration) error
	// Profiling serves /debug/pprof/.
	Profiling bool
}

// Machine is what /spec/ tells, in the names of cAdvisor.
type MachineInfo struct {
	Timestamp  time.Time `json:"timestamp"`
	Cores      int       `json:"num_cores"`
	Memory     uint64    `json:"memory_capacity"`
	MachineID  string    `json:"machine_id"`
	SystemUUID string    `json:"system_uuid"`
	BootID     string    `json:"boot_id"`
	// Cloud is always Unknown: nobody was asked.
	CloudProvider string `json:"cloud_provider"`
}

// kubeletRoutes are the rows of what is asked of a kubelet beside pods, logs,
// sessions and numbers.
func kubeletRoutes(k Kubelet, s *sessions) []Route {
	return []Route{
		{"GET", "/runningpods/{$}", access.Read, runningPods(k.Running)},
		{"GET", "/spec/{$}", access.Read, spec(k.MachineInfo)},
		{"GET", "/configz", access.Read, configz(k.Config)},
		{"GET", "/logs/", access.Admin, nodeLogs(k.LogRoot)},
		{"POST", "/checkpoint/{namespace}/{pod}/{container}", access.Admin, checkpoint(s, k)},
		{"", "/debug/pprof/", access.Admin, profiles(k.Profiling)},
	}
}

// runningPods answers with what the runtime has, whatever the manifests say.
func runningPods(running func() []v1.Pod) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		list := v1.PodList{Items: append([]v1.Pod{}, running()...)}
		list.Kind, list.APIVersion = "PodList", "v1"
		writeJSON(w, list)
	}
}

func configz(config func() map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"kubeletconfig": config()})
	}
}

func spec(machine func() MachineInfo) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, machine()) }
}
