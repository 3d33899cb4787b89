package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	nodeName          = gauge("kubelet_node_name", "The node's name. The count is always 1.", "node")
	buildInfo         = gauge("podstead_build_info", "The version of this program. The value is always 1.", "version")
	runningPods       = gauge("kubelet_running_pods", "Pods that have a running pod sandbox.")
	runningContainers = gauge("kubelet_running_containers", "Containers in the runtime, by their state.", "container_state")
	lastSeen          = gauge("kubelet_pleg_last_seen_seconds", "When all pods in the runtime were listed last, in seconds since 1970.")
	desiredPods       = gauge("kubelet_desired_pods", "Pods that a source wants.", "static")
	activePods        = gauge("kubelet_active_pods", "Pods that are wanted and have not come to their end.", "static")
	workingPods       = gauge("kubelet_working_pods", "Pods that have a worker, by what they are and what is done to them.", "config", "lifecycle", "static")

	volumeCapacity   = gauge("kubelet_volume_stats_capacity_bytes", "Capacity of the file system that a claim lies on.", "namespace", "persistentvolumeclaim")
	volumeAvailable  = gauge("kubelet_volume_stats_available_bytes", "Bytes that are available on the file system that a claim lies on.", "namespace", "persistentvolumeclaim")
	volumeUsed       = gauge("kubelet_volume_stats_used_bytes", "Bytes that are used on the file system that a claim lies on.", "namespace", "persistentvolumeclaim")
	volumeInodes     = gauge("kubelet_volume_stats_inodes", "Inodes of the file system that a claim lies on.", "namespace", "persistentvolumeclaim")
	volumeInodesFree = gauge("kubelet_volume_stats_inodes_free", "Free inodes of the file system that a claim lies on.", "namespace", "persistentvolumeclaim")
	volumeInodesUsed = gauge("kubelet_volume_stats_inodes_used", "Used inodes of the file system that a claim lies on.", "namespace", "persistentvolumeclaim")

	podPhases         = gauge("podstead_pods", "Pods that are told of, by phase.", "phase")
	podsReady         = gauge("podstead_pods_ready", "Pods that are ready.")
	restarts          = counter("podstead_container_restarts_total", "Restarts of a container in its pod.", "namespace", "pod", "container")
	manifestFaults    = gauge("podstead_manifest_faults", "Faults that hold manifests of a source back: what ran before goes on.", "source")
	manifestWarnings  = gauge("podstead_manifest_warnings", "What is doubtful in manifests that are in effect.", "source")
	manifestUnits     = gauge("podstead_manifest_units", "Manifest files of a source, or the one body of a URL.", "source")
	manifestDelivered = gauge("podstead_manifest_source_delivered", "Whether a source was read whole since the start.", "source")
	manifestAge       = gauge("podstead_manifest_last_good_age_seconds", "How long ago nothing of a source was held back last; 0 while nothing is. Missing if there was no such time since the start.", "source")
)

// kubelet collects what is known of the daemon and its pods, from memory.
func (s *Sources) kubelet(to chan<- prometheus.Metric) {
	nodeName.put(to, 1, s.NodeName)
	buildInfo.put(to, 1, s.Version)
	pods := s.Pods()
	s.runtime(to, pods)
	s.workers(to)
	s.statuses(to, pods)
	for _, m := range s.Manifests() {
		manifestFaults.put(to, float64(m.Faults), m.Source)
		manifestWarnings.put(to, float64(m.Warnings), m.Source)
		manifestUnits.put(to, float64(m.Units), m.Source)
		manifestDelivered.put(to, truth(m.Delivered), m.Source)
		if !m.LastGood.IsZero() {
			manifestAge.put(to, max(0, time.Since(m.LastGood).Seconds()), m.Source)
		}
	}
	for _, c := range s.Claims() {
		fs := &c.FS
		volumeCapacity.put(to, float64(fs.Capacity), c.Namespace, c.Name)
		volumeAvailable.put(to, float64(fs.Available), c.Namespace, c.Name)
		volumeUsed.put(to, float64(fs.Used), c.Namespace, c.Name)
		volumeInodes.put(to, float64(fs.Inodes), c.Namespace, c.Name)
		volumeInodesFree.put(to, float64(fs.InodesFree), c.Namespace, c.Name)
		volumeInodesUsed.put(to, float64(fs.InodesUsed), c.Namespace, c.Name)
	}
}

// runtime collects the last observed state of the runtime.
func (s *Sources) runtime(to chan<- prometheus.Metric, pods []PodState) {
	if at := s.LastRelist(); !at.IsZero() {
		lastSeen.put(to, float64(at.UnixNano())/1e9)
	}
	sandboxes, containers := 0, ContainerStates{}
	for i := range pods {
		if pods[i].SandboxReady {
			sandboxes++
		}
		c := &pods[i].Containers
		containers.Created += c.Created
		containers.Running += c.Running
		containers.Exited += c.Exited
		containers.Unknown += c.Unknown
	}
	runningPods.put(to, float64(sandboxes))
	runningContainers.put(to, float64(containers.Created), "created")
	runningContainers.put(to, float64(containers.Running), "running")
	runningContainers.put(to, float64(containers.Exited), "exited")
	runningContainers.put(to, float64(containers.Unknown), "unknown")
}

func (s *Sources) workers(to chan<- prometheus.Metric) {
	desired, active := map[string]int{}, map[string]int{}
	for _, w := range s.Workers() {
		workingPods.put(to, float64(w.Count), w.Config, w.Lifecycle, w.Static)
		if w.Config == "desired" {
			desired[w.Static] += w.Count
			if w.Lifecycle == "sync" {
				active[w.Static] += w.Count
			}
		}
	}
	for _, static := range []string{"", "true"} {
		desiredPods.put(to, float64(desired[static]), static)
		activePods.put(to, float64(active[static]), static)
	}
}

// statuses collects the published statuses. A status does not name its pod, so
// the names come from what was observed of the pod in the runtime.
func (s *Sources) statuses(to chan<- prometheus.Metric, pods []PodState) {
	phases, ready := map[v1.PodPhase]int{}, 0
	all := s.Statuses()
	for _, st := range all {
		phases[st.Phase]++
		for i := range st.Conditions {
			if c := &st.Conditions[i]; c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
				ready++
			}
		}
	}
	for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown} {
		podPhases.put(to, float64(phases[phase]), string(phase))
	}
	podsReady.put(to, float64(ready))
	// Of two revisions of a pod one counts: a series must be unique.
	newest := make(map[types.NamespacedName]types.UID, len(pods))
	for i := range pods {
		pod := &pods[i]
		if all[pod.UID] == nil {
			continue
		}
		name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
		if _, found := newest[name]; !found || pod.Running {
			newest[name] = pod.UID
		}
	}
	for name, uid := range newest {
		for _, list := range [][]v1.ContainerStatus{all[uid].InitContainerStatuses, all[uid].ContainerStatuses} {
			for i := range list {
				restarts.put(to, float64(list[i].RestartCount), name.Namespace, name.Name, list[i].Name)
			}
		}
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
