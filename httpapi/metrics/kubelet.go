package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

var (
	nodeName          = gauge("kubelet_node_name", "Name of the node. The value is always 1.", "node")
	buildInfo         = gauge("podstead_build_info", "Version of podstead. The value is always 1.", "version")
	runningPods       = gauge("kubelet_running_pods", "Number of pods with a ready pod sandbox.")
	runningContainers = gauge("kubelet_running_containers", "Number of containers in the runtime by state.",
		"container_state")
	lastSeen = gauge("kubelet_pleg_last_seen_seconds",
		"Time of the last full relist of the runtime, in seconds since the Unix epoch.")
	desiredPods = gauge("kubelet_desired_pods", "Number of pods that a manifest source or the API server wants.", "static")
	activePods  = gauge("kubelet_active_pods", "Number of desired pods that have not terminated.", "static")
	workingPods = gauge("kubelet_working_pods", "Number of pods with a pod worker, by configuration and lifecycle.",
		"config", "lifecycle", "static")

	volumeCapacity = gauge("kubelet_volume_stats_capacity_bytes", "Capacity in bytes of the volume's file system.",
		"namespace", "persistentvolumeclaim")
	volumeAvailable = gauge("kubelet_volume_stats_available_bytes", "Available bytes on the volume's file system.",
		"namespace", "persistentvolumeclaim")
	volumeUsed = gauge("kubelet_volume_stats_used_bytes", "Used bytes of the volume.", "namespace",
		"persistentvolumeclaim")
	volumeInodes = gauge("kubelet_volume_stats_inodes", "Number of inodes of the volume's file system.", "namespace",
		"persistentvolumeclaim")
	volumeInodesFree = gauge("kubelet_volume_stats_inodes_free", "Number of free inodes of the volume's file system.",
		"namespace", "persistentvolumeclaim")
	volumeAbnormal = gauge("kubelet_volume_stats_health_status_abnormal",
		"1 if the driver of the volume reports it as abnormal, 0 if as healthy.", "namespace", "persistentvolumeclaim")
	volumeInodesUsed = gauge("kubelet_volume_stats_inodes_used", "Number of used inodes of the volume.", "namespace",
		"persistentvolumeclaim")

	podPhases = gauge("podstead_pods", "Number of pods by phase.", "phase")
	podsReady = gauge("podstead_pods_ready", "Number of pods with the condition Ready.")
	restarts  = counter("podstead_container_restarts_total", "Number of restarts of a container.", "namespace",
		"pod", "container")
	rolledBackPods = gauge("podstead_rolled_back_pods",
		"Number of pods that run an earlier revision, because that of their manifest failed.")
	unwrittenFiles = gauge("podstead_unwritten_files",
		"Number of files of the daemon's state that could not be written; they are lost at a restart.")
	memoryQoSMin = gauge("kubelet_memory_qos_node_memory_min_bytes",
		"Memory in bytes of Guaranteed pods that is protected from reclaim (memory.min).")
	memoryQoSLow = gauge("kubelet_memory_qos_node_memory_low_bytes",
		"Memory in bytes of Burstable pods that is protected from reclaim as long as possible (memory.low).")
	claimsInUse = gauge("dra_resource_claims_in_use",
		"Number of resource claims that are prepared on this node, by driver; <any> counts each claim once.", "driver_name")
	podDNSReady = gauge("podstead_pod_dns_ready",
		"1 if pods that start now get the name server of this node; absent if the node is configured without one.")
	manifestFaults = gauge("podstead_manifest_faults",
		"Number of faults that keep manifests of a source from taking effect; the last good revisions keep running.",
		"source")
	manifestWarnings = gauge("podstead_manifest_warnings", "Number of warnings about manifests that are in effect.",
		"source")
	manifestFiles = gauge("podstead_manifest_files",
		"Number of manifest files of a source; 1 for the body of a URL.", "source")
	manifestSourceReady = gauge("podstead_manifest_source_ready", "1 if the source was read in full since the start.",
		"source")
	manifestIncomplete = gauge("podstead_manifest_source_incomplete", "Number of invalid manifests without a last good "+
		"revision because of which cleanup of the source's pods is suspended.", "source")
	manifestLastRead = gauge("podstead_manifest_last_read_timestamp_seconds", "Last time at which the source was read, "+
		"for a directory the end of the last scan, in seconds since the Unix epoch.", "source")
	manifestLastGood = gauge("podstead_manifest_last_good_timestamp_seconds", "Last time without a manifest fault of "+
		"the source, in seconds since the Unix epoch; the current time if there is no fault now. Absent if there was no "+
		"such time since the start.", "source")
)

// kubelet collects the metrics of the daemon and its pods, all from memory.
func (s *Sources) kubelet(to chan<- prometheus.Metric) {
	nodeName.send(to, 1, s.NodeName)
	buildInfo.send(to, 1, s.Version)
	pods := s.Pods()
	s.runtime(to, pods)
	s.workers(to)
	s.statuses(to, pods)
	if s.RolledBack != nil {
		rolledBackPods.send(to, float64(s.RolledBack()))
	}
	if s.Unwritten != nil {
		unwrittenFiles.send(to, float64(s.Unwritten()))
	}
	if s.MemoryQoS != nil {
		guaranteed, burstable := s.MemoryQoS()
		memoryQoSMin.send(to, float64(guaranteed))
		memoryQoSLow.send(to, float64(burstable))
	}
	if s.ClaimsInUse != nil {
		drivers, all := s.ClaimsInUse()
		for name, count := range drivers {
			claimsInUse.send(to, float64(count), name)
		}
		claimsInUse.send(to, float64(all), "<any>")
	}
	if s.PodDNSReady != nil {
		podDNSReady.send(to, boolValue(s.PodDNSReady()))
	}
	for _, m := range s.Manifests() {
		manifestFaults.send(to, float64(m.Faults), m.Source)
		manifestWarnings.send(to, float64(m.Warnings), m.Source)
		manifestFiles.send(to, float64(m.Files), m.Source)
		manifestSourceReady.send(to, boolValue(m.Ready), m.Source)
		manifestIncomplete.send(to, float64(m.Incomplete), m.Source)
		if !m.LastRead.IsZero() {
			manifestLastRead.send(to, unixSeconds(m.LastRead), m.Source)
		}
		if !m.LastGood.IsZero() {
			manifestLastGood.send(to, unixSeconds(m.LastGood), m.Source)
		}
	}
	s.claims(to)
}

// claims collects the usage of claims. What could not be counted in full is left out.
func (s *Sources) claims(to chan<- prometheus.Metric) {
	for _, c := range s.Claims() {
		volumeCapacity.send(to, float64(c.Capacity), c.Namespace, c.Name)
		if c.Condition != nil {
			volumeAbnormal.send(to, boolValue(c.Condition.Abnormal), c.Namespace, c.Name)
		}
		if c.Block {
			continue // only its size is known
		}
		volumeAvailable.send(to, float64(c.Available), c.Namespace, c.Name)
		volumeInodes.send(to, float64(c.Inodes), c.Namespace, c.Name)
		volumeInodesFree.send(to, float64(c.InodesFree), c.Namespace, c.Name)
		if !c.Incomplete {
			volumeUsed.send(to, float64(c.Used), c.Namespace, c.Name)
			volumeInodesUsed.send(to, float64(c.InodesUsed), c.Namespace, c.Name)
		}
	}
}

// runtime collects the last observed state of the runtime.
func (s *Sources) runtime(to chan<- prometheus.Metric, pods []PodState) {
	if at := s.LastRelist(); !at.IsZero() {
		lastSeen.send(to, unixSeconds(at))
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
	runningPods.send(to, float64(sandboxes))
	runningContainers.send(to, float64(containers.Created), "created")
	runningContainers.send(to, float64(containers.Running), "running")
	runningContainers.send(to, float64(containers.Exited), "exited")
	runningContainers.send(to, float64(containers.Unknown), "unknown")
}

func (s *Sources) workers(to chan<- prometheus.Metric) {
	desired, active := map[string]int{}, map[string]int{}
	for _, w := range s.Workers() {
		workingPods.send(to, float64(w.Count), w.Config, w.Lifecycle, w.Static)
		if w.Config == "desired" {
			desired[w.Static] += w.Count
			if w.Lifecycle == "sync" {
				active[w.Static] += w.Count
			}
		}
	}
	for _, static := range []string{"", "true"} {
		desiredPods.send(to, float64(desired[static]), static)
		activePods.send(to, float64(active[static]), static)
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
		podPhases.send(to, float64(phases[phase]), string(phase))
	}
	podsReady.send(to, float64(ready))
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
				restarts.send(to, float64(list[i].RestartCount), name.Namespace, name.Name, list[i].Name)
			}
		}
	}
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
