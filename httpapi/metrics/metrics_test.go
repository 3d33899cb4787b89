package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// measured is a Stats with fixed values.
type measured struct {
	node  *usage.Node
	pods  *usage.Pods
	disks *usage.Disks
	// details are those of cgroups and devices.
	details   *usage.Details
	fault     error
	nodeFault error
	traffic   []usage.Interface
}

func (m *measured) Node(context.Context, time.Duration) (*usage.Node, error) {
	if m.nodeFault != nil {
		return nil, m.nodeFault
	}
	return m.node, m.fault
}
func (m *measured) Pods(context.Context, time.Duration) (*usage.Pods, error) { return m.pods, m.fault }
func (m *measured) Disks(context.Context, time.Duration) (*usage.Disks, error) {
	return m.disks, m.fault
}
func (m *measured) Traffic(context.Context, time.Duration) (map[types.UID][]usage.Interface, error) {
	all := append([]usage.Interface{{Name: "eth0", RxBytes: 11, TxBytes: 12, RxPackets: 1, TxPackets: 2, RxDropped: 3}},
		m.traffic...)
	return map[types.UID][]usage.Interface{"u0": all}, m.fault
}
func (m *measured) Details(context.Context, time.Duration) (*usage.Details, error) {
	return m.details, m.fault
}

func measuredCgroup(path string) *usage.Cgroup {
	n, descriptors, sockets, files := uint64(3), uint64(20), uint64(5), int64(-1)
	return &usage.Cgroup{
		At: time.Unix(1000, 0), Path: path,
		IO: []usage.DeviceIO{
			{Device: "999:1", ReadBytes: 5, WriteBytes: 6, ReadOps: 7, WriteOps: 8, Cost: &usage.IOCost{Usage: time.Second}},
			{Device: "999:2"},
		},
		Burst: &usage.Burst{Periods: 2, Time: time.Second},
		Limits: usage.Limits{
			CPU:    &usage.CPULimits{Period: 100_000, Quota: 30_000, Shares: 307},
			Memory: &usage.MemoryLimits{Limit: 4096, SwapLimit: 1, Reservation: 2}, Threads: &n,
		},
		Memory: usage.MemoryDetails{ActiveFile: &n, InactiveFile: &n, Kernel: &n, LimitHits: &n, OOMKills: &n},
		Pressure: []usage.Pressure{
			{Resource: "cpu", Some: 2 * time.Second, Full: time.Second}, {Resource: "memory"}, {Resource: "io"},
		},
		Processes: &usage.Processes{Count: 2, FileDescriptors: &descriptors, Sockets: &sockets, MaxOpenFiles: &files},
	}
}

func measuredUsage() usage.Usage {
	processes := uint64(4)
	return usage.Usage{
		At: time.Unix(1000, 0),
		CPU: &usage.CPU{Total: 2500 * time.Millisecond, User: 2 * time.Second, System: 500 * time.Millisecond,
			Periods: 10, Throttled: 5, ThrottledTime: time.Second},
		Memory: &usage.Memory{Usage: 1000, InactiveFile: 300, RSS: 200, Cache: 400, Swap: 50, Limit: 4096, Peak: 2000,
			PageFaults: 9, MajorPageFaults: 1},
		Processes: &processes,
	}
}

// fixture returns the sources of a node with some pods of one container each.
func fixture(t testing.TB, pods int) (*Counters, Sources) {
	t.Helper()
	m := &measured{node: &usage.Node{Usage: measuredUsage(), SwapTotal: 100,
		Interfaces: []usage.Interface{{Name: "eth0"}}}, pods: &usage.Pods{},
		disks: &usage.Disks{Pods: map[types.UID]*usage.PodDisk{}}}
	m.details = &usage.Details{
		Node: measuredCgroup("/"), Pods: measuredCgroup("/kubepods"), ByID: map[string]*usage.Cgroup{},
		Sandboxes: map[string]usage.Usage{},
		Devices: []usage.Device{{Name: "/dev/sda1", Filesystem: usage.Filesystem{Capacity: 900},
			IO: &usage.DiskCounters{Reads: 4, Time: time.Second}}},
	}
	var observed []PodState
	statuses := map[types.UID]*v1.PodStatus{}
	var specs []*v1.Pod
	for i := range pods {
		uid, name := types.UID(fmt.Sprint("u", i)), fmt.Sprint("pod", i)
		id := fmt.Sprint("c", i)
		m.pods.Pods = append(m.pods.Pods, usage.Pod{
			UID: uid, Name: name, Namespace: "default", StartedAt: time.Unix(900, 0), SandboxID: fmt.Sprint("s", i),
			Usage:      measuredUsage(),
			Containers: []usage.Container{{Name: "main", ID: id, CreatedAt: time.Unix(901, 0), Usage: measuredUsage()}},
		})
		m.details.ByID[string(uid)] = measuredCgroup("/kubepods/pod" + string(uid))
		m.details.ByID[id] = measuredCgroup("/kubepods/pod" + string(uid) + "/" + id)
		m.details.ByID[fmt.Sprint("s", i)] = measuredCgroup("/kubepods/pod" + string(uid) + "/" + fmt.Sprint("s", i))
		m.details.Sandboxes[fmt.Sprint("s", i)] = measuredUsage()
		fs := &usage.Filesystem{Used: 70, Capacity: 1000, Inodes: 100, InodesFree: 60}
		m.disks.Pods[uid] = &usage.PodDisk{Containers: []usage.ContainerDisk{{Name: "main", ID: id, Rootfs: fs, Logs: fs}}}
		observed = append(observed, PodState{
			UID: uid, Name: name, Namespace: "default", SandboxReady: true, Running: true,
			Containers: ContainerStates{Running: 1, Exited: 1},
		})
		statuses[uid] = &v1.PodStatus{
			Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "main", RestartCount: 3}},
		}
		spec := &v1.Pod{Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", Image: "busybox", Resources: v1.ResourceRequirements{
				Limits:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m")},
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m")},
			}}}}}
		spec.UID = uid
		specs = append(specs, spec)
	}
	counters := NewCounters()
	return counters, Sources{
		NodeName: "n1", Version: "1.2.3", Stats: m,
		Pods: func() []PodState { return observed }, LastRelist: func() time.Time { return time.Unix(1000, 0) },
		Workers: func() []Worker {
			return []Worker{
				{"desired", "sync", "true", pods}, {"desired", "terminated", "true", 2}, {"orphan", "terminating", "true", 1},
				{"desired", "sync", "", 5}, {"desired", "terminating", "", 1}, {"runtime_only", "terminating", "unknown", 3},
			}
		},
		Statuses: func() map[types.UID]*v1.PodStatus { return statuses },
		Manifests: func() []Manifests {
			return []Manifests{{Source: "file", Ready: true, Files: 5, Faults: 2, Warnings: 1, LastGood: time.Unix(900, 0)},
				{Source: "http"}}
		},
		RolledBack: func() int { return 2 }, MemoryQoS: func() (int64, int64) { return 3 << 20, 2 << 20 },
		ClaimsInUse: func() (map[string]int, int) { return map[string]int{"gpu.example.com": 2}, 3 },
		PodDNSReady: func() bool { return true },
		Claims: func() []usage.Claim {
			return []usage.Claim{{Namespace: "default", Name: "data",
				ClaimVolume: usage.ClaimVolume{Filesystem: usage.Filesystem{Capacity: 1000, Used: 10}}},
				{Namespace: "default", Name: "large",
					ClaimVolume: usage.ClaimVolume{Filesystem: usage.Filesystem{Capacity: 1000, Used: 20}, Incomplete: true}},
				{Namespace: "default", Name: "disk",
					ClaimVolume: usage.ClaimVolume{Filesystem: usage.Filesystem{Capacity: 3000}, Block: true}}}
		},
		Probes: func() []ProbeCount {
			return []ProbeCount{{UID: "u0", Namespace: "default", Pod: "pod0", Container: "main", Type: "Liveness", Succeeded: 3,
				Failed: 1, Took: 2 * time.Second, Buckets: map[float64]uint64{0.25: 0, 0.5: 3, 1: 4}}}
		},
		Specs: func() []*v1.Pod { return specs },
		Machine: func() Machine {
			return Machine{ID: "m", SystemUUID: "s", BootID: "b", Kernel: "6.1", OS: "Debian", PhysicalCores: 2, Sockets: 1}
		},
		SandboxImage: func(context.Context) (string, error) { return "pause:3.10", nil },
	}
}

// countAll increments each counter.
func countAll(c *Counters) {
	c.RuntimeCall("RunPodSandbox", time.Second, nil)
	c.RuntimeCall("RunPodSandbox", time.Second, errors.New("no network"))
	c.RuntimeCall("ListContainers", time.Millisecond, context.Canceled)
	c.RuntimeCall("UpdateContainerResources", time.Millisecond, nil)
	c.Relisted(time.Millisecond, 0)
	c.Relisted(time.Millisecond, time.Second)
	c.RuntimeCall("RuntimeConfig", time.Millisecond, fmt.Errorf("RuntimeConfig: %w", errors.ErrUnsupported))
	c.UserNamespacedPodStarted(nil)
	c.UserNamespacedPodStarted(errors.New("no range of IDs"))
	c.PodResourcesRequested("v1", "Get", errors.New("not found"))
	c.PodResourcesRequested("v1", "GetAllocatableResources", nil)
	c.PodResourcesRequested("v1alpha1", "List", nil)
	c.ContainerStarted("container", "")
	c.ContainerStarted("init_container", "RunContainerError")
	c.PodSynced("sync", time.Millisecond)
	c.PodStarted(time.Second)
	c.PodDisrupted("Evicted", "memory.available")
	c.PodDisrupted("Preempting", "cpu")
	c.PodDisrupted("Terminated", "")
	c.ImageRemoved("space")
	c.ImageChecked("available")
	c.ImageUpdated("rolled_back")
	c.IncompleteImageRemoved()
	c.RolloutEnded("completed")
	c.MemoryRequested(nil)
	c.MemoryRequested(errors.New("not enough"))
	present, pulled := true, false
	c.ImageEnsured("IfNotPresent", &present, &pulled, "credentialRecordFound")
	c.ImageEnsured("Always", nil, &present, "")
	c.ImagePulled(10<<20, 2*time.Second)
	c.ImagePulled(10<<20+1, 2*time.Second)
	c.ImagePulled(2e9, 20*time.Second)
	c.ImagePulled(200e9, 20*time.Second)
	c.ImagePulled(0, time.Second)
	c.Request("GET", "metrics", false)()
	c.Request("BREW", "api", true)()
}

func scrape(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	w := httptest.NewRecorder()
	h(w, httptest.NewRequest("GET", "/", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v\n%s", w.Code, err, body)
	}
	return string(body)
}

func TestMetrics(t *testing.T) {
	counters, sources := fixture(t, 2)
	countAll(counters)
	e := New(counters, sources)
	const who = `container="main",id="/kubepods/podu0/c0",image="busybox",`
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		want   []string
	}{
		{"kubelet", e.Kubelet(), []string{
			`kubelet_node_name{node="n1"} 1`, `kubelet_running_pods 2`,
			`kubelet_running_containers{container_state="running"} 2`,
			`kubelet_running_containers{container_state="exited"} 2`, `kubelet_pleg_last_seen_seconds 1000`,
			`kubelet_desired_pods{static="true"} 4`, `kubelet_active_pods{static="true"} 2`,
			`kubelet_working_pods{config="orphan",lifecycle="terminating",static="true"} 1`,
			`kubelet_desired_pods{static=""} 6`, `kubelet_active_pods{static=""} 5`,
			`kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 3`,
			`kubelet_runtime_operations_total{operation_type="run_podsandbox"} 2`,
			`kubelet_runtime_operations_errors_total{operation_type="run_podsandbox"} 1`,
			`kubelet_runtime_operations_total{operation_type="list_containers"} 1`,
			`kubelet_runtime_operations_total{operation_type="update_container"} 1`,
			`kubelet_runtime_operations_duration_seconds_count{operation_type="run_podsandbox"} 2`,
			`podstead_image_update_checks_total{result="available"} 1`, `podstead_image_updates_total{result="rolled_back"} 1`,
			`podstead_incomplete_images_removed_total 1`,
			`podstead_rollouts_total{result="completed"} 1`, `podstead_rolled_back_pods 2`,
			`kubelet_memory_qos_node_memory_min_bytes 3.145728e+06`, `kubelet_memory_qos_node_memory_low_bytes 2.097152e+06`,
			`kubelet_memory_manager_pinning_requests_total 2`, `kubelet_memory_manager_pinning_errors_total 1`,
			`kubelet_started_pods_total 2`, `kubelet_started_pods_errors_total{code="CreatePodSandboxError"} 1`,
			`kubelet_run_podsandbox_duration_seconds_count 2`, `kubelet_cri_losing_support{version="1.38.0"} 1`,
			`kubelet_started_user_namespaced_pods_total 2`, `kubelet_started_user_namespaced_pods_errors_total 1`,
			`kubelet_pod_resources_endpoint_requests_total{server_api_version="v1"} 2`,
			`kubelet_pod_resources_endpoint_requests_total{server_api_version="v1alpha1"} 1`,
			`kubelet_pod_resources_endpoint_requests_list{server_api_version="v1alpha1"} 1`,
			`kubelet_pod_resources_endpoint_requests_get{server_api_version="v1"} 1`,
			`kubelet_pod_resources_endpoint_errors_get{server_api_version="v1"} 1`,
			`kubelet_pod_resources_endpoint_requests_get_allocatable{server_api_version="v1"} 1`,
			`dra_resource_claims_in_use{driver_name="gpu.example.com"} 2`, `dra_resource_claims_in_use{driver_name="<any>"} 3`,
			`kubelet_started_containers_total{container_type="init_container"} 1`,
			`kubelet_started_containers_errors_total{code="RunContainerError",container_type="init_container"} 1`,
			`kubelet_pleg_relist_duration_seconds_count 2`, `kubelet_pleg_relist_interval_seconds_count 1`,
			`kubelet_pod_worker_duration_seconds_count{operation_type="sync"} 1`, `kubelet_pod_start_duration_seconds_count 1`,
			`kubelet_evictions{eviction_signal="memory.available"} 1`, `kubelet_preemptions{preemption_signal="cpu"} 1`,
			`podstead_disrupted_pods_total{reason="Terminated"} 1`,
			`kubelet_image_garbage_collected_total{reason="space"} 1`,
			`kubelet_image_manager_ensure_image_requests_total{present_locally="true",pull_policy="ifnotpresent",pull_required="false"} 1`,
			`kubelet_image_manager_ensure_image_requests_total{present_locally="unknown",pull_policy="always",pull_required="true"} 1`,
			`kubelet_imagemanager_image_mustpull_checks_total{result="credentialRecordFound"} 1`,
			`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="0-10MB"} 1`,
			`kubelet_image_pull_duration_seconds_bucket{image_size_in_bytes="10MB-100MB",le="5"} 1`,
			`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="1GB-5GB"} 1`,
			`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="GT100GB"} 1`,
			`kubelet_image_pull_duration_seconds_count{image_size_in_bytes="N/A"} 1`,
			`kubelet_http_requests_total{long_running="false",method="GET",path="metrics",server_type="readwrite"} 1`,
			`kubelet_http_requests_total{long_running="true",method="other",path="api",server_type="readwrite"} 1`,
			`kubelet_http_inflight_requests{long_running="false",method="GET",path="metrics",server_type="readwrite"} 0`,
			`kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="data"} 1000`,
			`kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="data"} 10`,
			`kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="large"} 1000`,
			`kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="disk"} 3000`,
			`podstead_build_info{version="1.2.3"} 1`, `podstead_pods{phase="Running"} 2`, `podstead_pods_ready 2`,
			`podstead_container_restarts_total{container="main",namespace="default",pod="pod1"} 3`,
			`podstead_manifest_faults{source="file"} 2`, `podstead_manifest_warnings{source="file"} 1`,
			`podstead_manifest_files{source="file"} 5`,
			`podstead_manifest_source_ready{source="http"} 0`,
			`podstead_manifest_last_good_timestamp_seconds{source="file"} 900`,
			`go_goroutines `, `process_resident_memory_bytes `,
		}},
		{"resource", e.Resource(), []string{
			`node_cpu_usage_seconds_total 2.5 1000000`, `node_memory_working_set_bytes 700 1000000`,
			`node_swap_usage_bytes 50 1000000`,
			`container_cpu_usage_seconds_total{container="main",namespace="default",pod="pod0"} 2.5 1000000`,
			`container_memory_working_set_bytes{container="main",namespace="default",pod="pod1"} 700 1000000`,
			`container_start_time_seconds{container="main",namespace="default",pod="pod1"} 901`,
			`pod_cpu_usage_seconds_total{namespace="default",pod="pod0"} 2.5 1000000`,
			`pod_memory_working_set_bytes{namespace="default",pod="pod0"} 700 1000000`,
			`pod_swap_usage_bytes{namespace="default",pod="pod0"} 50 1000000`, `resource_scrape_error 0`,
		}},
		{"probes", e.Probes(), []string{
			`prober_probe_total{container="main",namespace="default",pod="pod0",pod_uid="u0",probe_type="Liveness",result="successful"} 3`,
			`prober_probe_total{container="main",namespace="default",pod="pod0",pod_uid="u0",probe_type="Liveness",result="failed"} 1`,
			`prober_probe_duration_seconds_bucket{container="main",namespace="default",pod="pod0",pod_uid="u0",probe_type="Liveness",le="0.5"} 3`,
			`prober_probe_duration_seconds_count{container="main",namespace="default",pod="pod0",pod_uid="u0",probe_type="Liveness"} 4`,
		}},
		{"cadvisor", e.Cadvisor(), []string{
			`container_cpu_usage_seconds_total{` + who + `name="c0",namespace="default",pod="pod0",cpu="total"} 2.5 1000000`,
			`container_cpu_cfs_throttled_periods_total{` + who + `name="c0",namespace="default",pod="pod0"} 5 1000000`,
			`container_memory_working_set_bytes{` + who + `name="c0",namespace="default",pod="pod0"} 700 1000000`,
			`container_memory_rss{` + who + `name="c0",namespace="default",pod="pod0"} 200 1000000`,
			`container_memory_working_set_bytes{container="",id="/",image="",name="",namespace="",pod=""} 700 1000000`,
			`container_memory_usage_bytes{container="",id="/kubepods/podu0",image="",name="",namespace="default",pod="pod0"} 1000 1000000`,
			`container_network_receive_bytes_total{container="",id="/kubepods/podu0/s0",image="pause:3.10",name="s0",namespace="default",pod="pod0",interface="eth0"} 11`,
			`container_network_receive_packets_dropped_total{container="",id="/kubepods/podu0/s0",image="pause:3.10",name="s0",namespace="default",pod="pod0",interface="eth0"} 3`,
			`container_fs_writes_bytes_total{` + who + `name="c0",namespace="default",pod="pod0",device="999:1"} 6`,
			`container_fs_usage_bytes{` + who + `name="c0",namespace="default",pod="pod0",device=""} 140`,
			`container_spec_cpu_quota{` + who + `name="c0",namespace="default",pod="pod0"} 30000`,
			`container_spec_cpu_shares{` + who + `name="c0",namespace="default",pod="pod0"} 307`,
			`container_spec_memory_limit_bytes{` + who + `name="c0",namespace="default",pod="pod0"} 4096`,
			`container_last_seen{` + who, `container_start_time_seconds{` + who +
				`name="c0",namespace="default",pod="pod0"} 901`,
			`machine_memory_bytes{boot_id="b",machine_id="m",system_uuid="s"} 4096`, `machine_cpu_cores{`,
			`container_processes{` + who, `container_file_descriptors{` + who + `name="c0",namespace="default",pod="pod0"} 20`,
			`container_sockets{` + who + `name="c0",namespace="default",pod="pod0"} 5`,
			`container_ulimits_soft{` + who + `name="c0",namespace="default",pod="pod0",ulimit="max_open_files"} -1`,
			`container_oom_events_total{` + who + `name="c0",namespace="default",pod="pod0"} 3`,
			`container_blkio_device_usage_total{` + who +
				`name="c0",namespace="default",pod="pod0",device="999:1",major="999",minor="1",operation="Write"} 6`,
			`container_pressure_cpu_waiting_seconds_total{` + who + `name="c0",namespace="default",pod="pod0"} 2 1000000`,
			`container_fs_io_time_seconds_total{container="",id="/",image="",name="",namespace="",pod="",device="/dev/sda1"} 1`,
			`container_memory_working_set_bytes{container="",id="/kubepods/podu0/s0",image="pause:3.10",name="s0",namespace="default",pod="pod0"} 700`,
			`container_scrape_error 0`,
		}},
	} {
		lines := sorted(scrape(t, c.handle))
		for _, absent := range []string{`kubelet_volume_stats_used_bytes{namespace="default",persistentvolumeclaim="large"}`,
			`kubelet_volume_stats_available_bytes{namespace="default",persistentvolumeclaim="disk"}`} {
			if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, sortLabels(absent)) }) {
				t.Errorf("%s: has %s", c.name, absent)
			}
		}
		for _, want := range c.want {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, sortLabels(want)) }) {
				t.Errorf("%s: no line %s", c.name, want)
			}
		}
		if t.Failed() {
			t.Logf("%s:\n%s", c.name, strings.Join(lines, "\n"))
		}
	}
}

// sorted returns the lines with their labels sorted.
func sorted(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, sortLabels(strings.TrimSpace(line)))
		}
	}
	return lines
}

func sortLabels(line string) string {
	name, rest, ok := strings.Cut(line, "{")
	labels, value, ok2 := strings.Cut(rest, "}")
	if !ok || !ok2 {
		return line
	}
	list := strings.Split(labels, ",")
	slices.Sort(list)
	return name + "{" + strings.Join(list, ",") + "}" + value
}

// lintExceptions are names of the kubelet or cAdvisor that the linter objects to;
// dashboards use them.
var lintExceptions = []string{"kubelet_evictions", "kubelet_preemptions", "container_fs_inodes_total",
	"container_memory_failcnt", "cadvisor_version_info", "kubelet_pod_resources_endpoint_requests_list",
	"kubelet_pod_resources_endpoint_requests_get", "kubelet_pod_resources_endpoint_requests_get_allocatable",
	"kubelet_pod_resources_endpoint_errors_get"}

func TestLint(t *testing.T) {
	counters, sources := fixture(t, 1)
	countAll(counters)
	e := New(counters, sources)
	cadvisor := collectorFunc(sources.cadvisor(t.Context()).collect)
	gather := func(c prometheus.Collector) *prometheus.Registry {
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(c)
		return r
	}
	found := map[string]bool{}
	for name, g := range map[string]prometheus.Gatherer{
		"kubelet": e.kubelet, "probes": e.probes, "resource": gather(sources.resource(t.Context())),
		"cadvisor": gather(cadvisor),
	} {
		families, err := g.Gather()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(families) < 2 {
			t.Errorf("%s has only %d metrics", name, len(families))
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			found[p.Metric] = true
			if !slices.Contains(lintExceptions, p.Metric) {
				t.Errorf("%s: %s: %s", name, p.Metric, p.Text)
			}
		}
	}
	for _, name := range lintExceptions {
		if !found[name] {
			t.Errorf("the linter no longer objects to %s: remove the exception", name)
		}
	}
}

// A runtime that was upgraded has the call that it did not have.
func TestUpgradedRuntime(t *testing.T) {
	counters, sources := fixture(t, 1)
	e := New(counters, sources)
	for _, c := range []struct {
		err   error
		shown bool
	}{{nil, false}, {errors.ErrUnsupported, true}, {errors.New("no connection"), true}, {nil, false}} {
		counters.RuntimeCall("RuntimeConfig", time.Millisecond, c.err)
		if shown := strings.Contains(scrape(t, e.Kubelet()), "kubelet_cri_losing_support{"); shown != c.shown {
			t.Errorf("after %v: shown %v", c.err, shown)
		}
	}
}

// A measurement that fails is reported, and hides nothing else.
func TestScrapeWithFailedMeasurement(t *testing.T) {
	counters, sources := fixture(t, 1)
	m := sources.Stats.(*measured)
	m.fault = errors.New("no")
	e := New(counters, sources)
	if text := scrape(t, e.Resource()); !strings.Contains(text, "resource_scrape_error 1") {
		t.Errorf("no error is reported:\n%s", text)
	}
	m.nodeFault = errors.New("no")
	if text := scrape(t, e.Cadvisor()); !strings.Contains(text, "container_scrape_error 1") ||
		!strings.Contains(text, "machine_cpu_cores") {
		t.Errorf("cadvisor:\n%s", text)
	}
	m.fault = nil
	if text := scrape(t, e.Cadvisor()); !strings.Contains(text, "container_scrape_error 1") ||
		!strings.Contains(text, `container_memory_rss{container="main"`) {
		t.Errorf("cadvisor without the node:\n%s", text)
	}
	m.nodeFault = nil
	m.fault, m.pods.Missing = nil, 1
	if text := scrape(t, e.Resource()); !strings.Contains(text, "resource_scrape_error 1") ||
		!strings.Contains(text, "pod_memory_working_set_bytes") {
		t.Errorf("with a missing container:\n%s", text)
	}
}

// A series that cannot be collected is left out and logged once, and hides nothing else.
func TestScrapeWithBadSeries(t *testing.T) {
	counters, sources := fixture(t, 2)
	var log strings.Builder
	sources.Log = slog.New(slog.NewTextHandler(&log, nil))
	sources.Stats.(*measured).traffic = []usage.Interface{{Name: "eth0"}, {Name: "\xff"}, {Name: "eth1", RxBytes: 5}}
	e := New(counters, sources)
	for range 2 {
		text := scrape(t, e.Cadvisor())
		for _, want := range []string{`interface="eth0"`, `interface="eth1"`,
			`container_last_seen{container="main",id="/kubepods/podu1/c1"`} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s", want)
			}
		}
	}
	if n := strings.Count(log.String(), "Some metrics are missing"); n != 1 {
		t.Errorf("%d messages:\n%s", n, log.String())
	}
}

// kubeletSeries are the container and machine metrics of the kubelet 1.36 on Linux with
// cgroup v2 and PSI.
const kubeletSeries = `
cadvisor_version_info container_blkio_device_usage_total container_cpu_cfs_burst_periods_total
container_cpu_cfs_burst_seconds_total container_cpu_cfs_periods_total container_cpu_cfs_throttled_periods_total
container_cpu_cfs_throttled_seconds_total container_cpu_load_average_10s container_cpu_load_d_average_10s
container_cpu_system_seconds_total container_cpu_usage_seconds_total container_cpu_user_seconds_total
container_file_descriptors container_fs_inodes_free container_fs_inodes_total container_fs_io_cost_indebt_seconds_total
container_fs_io_cost_indelay_seconds_total container_fs_io_cost_usage_seconds_total
container_fs_io_cost_wait_seconds_total container_fs_io_current container_fs_io_time_seconds_total
container_fs_io_time_weighted_seconds_total container_fs_limit_bytes container_fs_read_seconds_total
container_fs_reads_bytes_total container_fs_reads_merged_total container_fs_reads_total
container_fs_sector_reads_total container_fs_sector_writes_total container_fs_usage_bytes
container_fs_write_seconds_total container_fs_writes_bytes_total container_fs_writes_merged_total
container_fs_writes_total container_health_state container_last_seen container_memory_cache container_memory_failcnt
container_memory_failures_total container_memory_kernel_usage container_memory_mapped_file
container_memory_max_usage_bytes container_memory_rss container_memory_swap
container_memory_total_active_file_bytes container_memory_total_inactive_file_bytes container_memory_usage_bytes
container_memory_working_set_bytes container_network_receive_bytes_total container_network_receive_errors_total
container_network_receive_packets_dropped_total container_network_receive_packets_total
container_network_transmit_bytes_total container_network_transmit_errors_total
container_network_transmit_packets_dropped_total container_network_transmit_packets_total container_oom_events_total
container_pressure_cpu_stalled_seconds_total container_pressure_cpu_waiting_seconds_total
container_pressure_io_stalled_seconds_total container_pressure_io_waiting_seconds_total
container_pressure_memory_stalled_seconds_total container_pressure_memory_waiting_seconds_total container_processes
container_scrape_error container_sockets container_spec_cpu_period container_spec_cpu_quota container_spec_cpu_shares
container_spec_memory_limit_bytes container_spec_memory_reservation_limit_bytes
container_spec_memory_swap_limit_bytes container_start_time_seconds container_tasks_state container_threads
container_threads_max container_ulimits_soft machine_cpu_books machine_cpu_cores machine_cpu_drawers
machine_cpu_physical_cores machine_cpu_sockets machine_dimm_capacity_bytes machine_dimm_count machine_memory_bytes
machine_nvm_avg_power_budget_watts machine_nvm_capacity machine_scrape_error machine_swap_bytes`

// withoutMeaning are those that have the same value on every node of the kubelet, or describe
// hardware that podstead does not read.
const withoutMeaning = `
container_cpu_load_average_10s container_cpu_load_d_average_10s container_health_state container_tasks_state
machine_cpu_books machine_cpu_drawers machine_dimm_capacity_bytes machine_dimm_count
machine_nvm_avg_power_budget_watts machine_nvm_capacity`

func TestCadvisorHasTheKubeletsSeries(t *testing.T) {
	counters, sources := fixture(t, 1)
	text := scrape(t, New(counters, sources).Cadvisor())
	var got []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, _, _ := strings.Cut(rest, " ")
			got = append(got, name)
		}
	}
	left := strings.Fields(withoutMeaning)
	want := slices.DeleteFunc(strings.Fields(kubeletSeries), func(name string) bool { return slices.Contains(left, name) })
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Two revisions of a pod may exist at once.
func TestTwoRevisionsAreOneSeries(t *testing.T) {
	counters, sources := fixture(t, 1)
	m := sources.Stats.(*measured)
	newer := m.pods.Pods[0]
	newer.UID, newer.StartedAt = "other", time.Unix(5000, 0)
	newer.Containers = slices.Clone(newer.Containers)
	newer.Containers[0].CreatedAt = newer.StartedAt
	m.pods.Pods = append(m.pods.Pods, newer)
	observed := append(sources.Pods(),
		PodState{UID: "other", Name: "pod0", Namespace: "default", Running: true, Containers: ContainerStates{Running: 1}})
	sources.Pods = func() []PodState { return observed }
	sources.Statuses()["other"] = &v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{Name: "main", RestartCount: 8}}}
	e := New(counters, sources)
	if text := scrape(t, e.Resource()); !strings.Contains(text,
		`container_start_time_seconds{container="main",namespace="default",pod="pod0"} 5000`) {
		t.Errorf("resource:\n%s", text)
	}
	if text := scrape(t, e.Kubelet()); strings.Count(text, "podstead_container_restarts_total{") != 1 {
		t.Errorf("kubelet:\n%s", text)
	}
	if text := scrape(t, e.Cadvisor()); !strings.Contains(text, `id="/podother"`) ||
		strings.Contains(text, `id="/kubepods/podu0"`) {
		t.Errorf("cadvisor:\n%s", text)
	}
}

func TestOperationTypes(t *testing.T) {
	for method, want := range map[string]string{
		"RunPodSandbox": "run_podsandbox", "PodSandboxStatus": "podsandbox_status", "ListContainers": "list_containers",
		"ExecSync": "exec_sync", "ReopenContainerLog": "reopen_container_log", "Version": "version",
		"UpdateContainerResources": "update_container",
	} {
		if got := operationType(method); got != want {
			t.Errorf("%s is %s, want %s", method, got, want)
		}
	}
}

func BenchmarkScrape(b *testing.B) {
	counters, sources := fixture(b, 500)
	countAll(counters)
	e := New(counters, sources)
	for name, handle := range map[string]http.HandlerFunc{"kubelet": e.Kubelet(), "resource": e.Resource(),
		"cadvisor": e.Cadvisor()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				scrape(b, handle)
			}
		})
	}
}

// The runtime is asked for the image of sandboxes until it responds, and then no more.
func TestSandboxImageIsAskedOnce(t *testing.T) {
	_, sources := fixture(t, 1)
	asked := 0
	sources.SandboxImage = func(context.Context) (string, error) {
		if asked++; asked == 1 {
			return "", errors.New("the runtime is down")
		}
		return "pause:3.10", nil
	}
	h := New(NewCounters(), sources).Cadvisor()
	for scrapes, want := range []bool{false, true, true} {
		if got := strings.Contains(scrape(t, h), `image="pause:3.10"`); got != want {
			t.Errorf("scrape %d has the image: %v", scrapes, got)
		}
	}
	if asked != 2 {
		t.Errorf("the runtime was asked %d times", asked)
	}
}
