package metrics

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/cgroupvalues"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
)

// maxCadvisorAge is the maximum age of the stats of interfaces and devices,
// maxDiskAge that of the disks, whose files are walked.
const (
	maxCadvisorAge = time.Second
	maxDiskAge     = time.Minute
)

// cadvisorLabels identify a container, a pod, or the node.
var cadvisorLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

func containerSeries(make func(string, string, ...string) series, name, help string, more ...string) series {
	return make(name, help, append(append([]string{}, cadvisorLabels...), more...)...)
}

var (
	cCPU       = containerSeries(counter, "container_cpu_usage_seconds_total", "Cumulative CPU time consumed in seconds.", "cpu")
	cUser      = containerSeries(counter, "container_cpu_user_seconds_total", "Cumulative user CPU time consumed in seconds.")
	cSystem    = containerSeries(counter, "container_cpu_system_seconds_total", "Cumulative system CPU time consumed in seconds.")
	cPeriods   = containerSeries(counter, "container_cpu_cfs_periods_total", "Number of elapsed periods under a CPU quota.")
	cThrottled = containerSeries(counter, "container_cpu_cfs_throttled_periods_total", "Number of throttled periods.")
	cThrottle  = containerSeries(counter, "container_cpu_cfs_throttled_seconds_total", "Total time of throttling in seconds.")

	cMemory   = containerSeries(gauge, "container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed.")
	cWorking  = containerSeries(gauge, "container_memory_working_set_bytes", "Current working set in bytes.")
	cRSS      = containerSeries(gauge, "container_memory_rss", "Size of RSS in bytes.")
	cCache    = containerSeries(gauge, "container_memory_cache", "Size of page cache memory in bytes.")
	cSwap     = containerSeries(gauge, "container_memory_swap", "Swap usage in bytes.")
	cMapped   = containerSeries(gauge, "container_memory_mapped_file", "Size of memory mapped files in bytes.")
	cPeak     = containerSeries(gauge, "container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes.")
	cFailures = containerSeries(counter, "container_memory_failures_total", "Cumulative count of page faults by type.", "failure_type", "scope")

	cProcesses = containerSeries(gauge, "container_threads", "Number of processes and threads in the container.")
	cStart     = containerSeries(gauge, "container_start_time_seconds", "Start time in seconds since the Unix epoch.")
	cSeen      = containerSeries(gauge, "container_last_seen", "Time of the last measurement in seconds since the Unix epoch.")

	cPeriod      = containerSeries(gauge, "container_spec_cpu_period", "CPU period of the container in microseconds.")
	cQuota       = containerSeries(gauge, "container_spec_cpu_quota", "CPU quota of the container in microseconds.")
	cShares      = containerSeries(gauge, "container_spec_cpu_shares", "CPU shares of the container.")
	cMemoryLimit = containerSeries(gauge, "container_spec_memory_limit_bytes", "Memory limit in bytes; 0 is no limit.")

	cReads      = containerSeries(counter, "container_fs_reads_total", "Cumulative count of reads completed.", "device")
	cWrites     = containerSeries(counter, "container_fs_writes_total", "Cumulative count of writes completed.", "device")
	cReadBytes  = containerSeries(counter, "container_fs_reads_bytes_total", "Cumulative count of bytes read.", "device")
	cWriteBytes = containerSeries(counter, "container_fs_writes_bytes_total", "Cumulative count of bytes written.", "device")
	cDiskUsage  = containerSeries(gauge, "container_fs_usage_bytes", "Bytes used by the writable layer and the logs of the container.", "device")
	cDiskLimit  = containerSeries(gauge, "container_fs_limit_bytes", "Capacity in bytes of the file system.", "device")
	cInodes     = containerSeries(gauge, "container_fs_inodes_total", "Number of inodes of the file system.", "device")
	cInodesFree = containerSeries(gauge, "container_fs_inodes_free", "Number of free inodes of the file system.", "device")

	network = func(way, what, help string) series {
		return containerSeries(counter, "container_network_"+way+"_"+what+"_total", help, "interface")
	}
	rxBytes   = network("receive", "bytes", "Cumulative count of bytes received.")
	rxPackets = network("receive", "packets", "Cumulative count of packets received.")
	rxErrors  = network("receive", "errors", "Cumulative count of errors encountered while receiving.")
	rxDropped = network("receive", "packets_dropped", "Cumulative count of packets dropped while receiving.")
	txBytes   = network("transmit", "bytes", "Cumulative count of bytes transmitted.")
	txPackets = network("transmit", "packets", "Cumulative count of packets transmitted.")
	txErrors  = network("transmit", "errors", "Cumulative count of errors encountered while transmitting.")
	txDropped = network("transmit", "packets_dropped", "Cumulative count of packets dropped while transmitting.")

	machineCores  = gauge("machine_cpu_cores", "Number of logical CPUs.")
	machineMemory = gauge("machine_memory_bytes", "Memory of the node in bytes.")
	machineSwap   = gauge("machine_swap_bytes", "Swap of the node in bytes.")
)

// cadvisorData is the input of one scrape.
type cadvisorData struct {
	node    *usage.Node
	pods    *usage.Pods
	disks   *usage.Disks
	traffic map[types.UID][]usage.Interface
	io      map[string][]usage.DeviceIO
	specs   map[types.UID]*v1.Pod
	devices map[string]string
}

// cadvisor collects the container series that dashboards use.
func (s *Sources) cadvisor(ctx context.Context) (collectorFunc, error) {
	var d cadvisorData
	var err error
	if d.node, err = s.Stats.Node(ctx, maxCadvisorAge); err != nil {
		return nil, err
	}
	if d.pods, err = s.Stats.Pods(ctx, maxCadvisorAge); err != nil {
		return nil, err
	}
	if d.disks, err = s.Stats.Disks(ctx, maxDiskAge); err != nil {
		return nil, err
	}
	if d.traffic, err = s.Stats.Traffic(ctx, maxCadvisorAge); err != nil {
		return nil, err
	}
	if d.io, err = s.Stats.IO(ctx, maxCadvisorAge); err != nil {
		return nil, err
	}
	d.specs, d.devices = map[types.UID]*v1.Pod{}, map[string]string{}
	for _, pod := range s.Specs() {
		d.specs[pod.UID] = pod
	}
	return d.collect, nil
}

func (d *cadvisorData) collect(to chan<- prometheus.Metric) {
	machineCores.put(to, float64(runtime.NumCPU()))
	if m := d.node.Memory; m != nil {
		machineMemory.put(to, float64(m.Limit))
		machineSwap.put(to, float64(d.node.SwapTotal))
	}
	root := subject{"", "/", "", "", "", ""}
	root.usage(to, &d.node.Usage)
	root.interfaces(to, d.node.At, d.node.Interfaces)
	for _, pod := range newestRevisions(d.pods) {
		d.pod(to, pod)
	}
}

// subject has the values of cadvisorLabels: container, id, image, name, namespace,
// pod.
type subject [6]string

func (d *cadvisorData) pod(to chan<- prometheus.Metric, pod *usage.Pod) {
	spec := d.specs[pod.UID]
	id := "/pod" + string(pod.UID)
	of := subject{"", id, "", "", pod.Namespace, pod.Name}
	of.usage(to, &pod.Usage)
	cStart.at(to, pod.At, unixSeconds(pod.StartedAt), of[:]...)
	// The network belongs to the sandbox.
	sandbox := subject{"", id + "/" + pod.SandboxID, "", pod.SandboxID, pod.Namespace, pod.Name}
	sandbox.interfaces(to, pod.At, d.traffic[pod.UID])
	disk := d.disks.Pods[pod.UID]
	for i := range pod.Containers {
		c := &pod.Containers[i]
		spec, image := containerSpec(spec, c.Name)
		of := subject{c.Name, id + "/" + c.ID, image, c.ID, pod.Namespace, pod.Name}
		of.usage(to, &c.Usage)
		cStart.at(to, c.At, unixSeconds(c.CreatedAt), of[:]...)
		cSeen.put(to, unixSeconds(c.At), of[:]...)
		of.limits(to, c, spec)
		for _, io := range d.io[c.ID] {
			device := d.device(io.Device)
			cReads.put(to, float64(io.ReadOps), append(of[:], device)...)
			cWrites.put(to, float64(io.WriteOps), append(of[:], device)...)
			cReadBytes.put(to, float64(io.ReadBytes), append(of[:], device)...)
			cWriteBytes.put(to, float64(io.WriteBytes), append(of[:], device)...)
		}
		of.disk(to, c, disk)
	}
}

// usage sends the series that every subject has.
func (s subject) usage(to chan<- prometheus.Metric, u *usage.Usage) {
	l := s[:]
	if c := u.CPU; c != nil {
		cCPU.at(to, u.At, c.Total.Seconds(), append(l, "total")...)
		cUser.at(to, u.At, c.User.Seconds(), l...)
		cSystem.at(to, u.At, c.System.Seconds(), l...)
		if c.Periods > 0 {
			cPeriods.at(to, u.At, float64(c.Periods), l...)
			cThrottled.at(to, u.At, float64(c.Throttled), l...)
			cThrottle.at(to, u.At, c.ThrottledTime.Seconds(), l...)
		}
	}
	if m := u.Memory; m != nil {
		cMemory.at(to, u.At, float64(m.Usage), l...)
		cWorking.at(to, u.At, float64(m.WorkingSet()), l...)
		cRSS.at(to, u.At, float64(m.RSS), l...)
		cCache.at(to, u.At, float64(m.Cache), l...)
		cSwap.at(to, u.At, float64(m.Swap), l...)
		cMapped.at(to, u.At, float64(m.MappedFile), l...)
		if m.Peak > 0 {
			cPeak.at(to, u.At, float64(m.Peak), l...)
		}
		cFailures.at(to, u.At, float64(m.PageFaults), append(l, "pgfault", "container")...)
		cFailures.at(to, u.At, float64(m.MajorPageFaults), append(l, "pgmajfault", "container")...)
	}
	if u.Processes != nil {
		cProcesses.at(to, u.At, float64(*u.Processes), l...)
	}
}

func (s subject) interfaces(to chan<- prometheus.Metric, at time.Time, list []usage.Interface) {
	for i := range list {
		f := &list[i]
		l := append(s[:], f.Name)
		rxBytes.at(to, at, float64(f.RxBytes), l...)
		rxPackets.at(to, at, float64(f.RxPackets), l...)
		rxErrors.at(to, at, float64(f.RxErrors), l...)
		rxDropped.at(to, at, float64(f.RxDropped), l...)
		txBytes.at(to, at, float64(f.TxBytes), l...)
		txPackets.at(to, at, float64(f.TxPackets), l...)
		txErrors.at(to, at, float64(f.TxErrors), l...)
		txDropped.at(to, at, float64(f.TxDropped), l...)
	}
}

// cfsPeriod is the kubelet's default CFS period, in microseconds.
const cfsPeriod = 100_000

func (s subject) limits(to chan<- prometheus.Metric, c *usage.Container, spec *v1.Container) {
	if c.Memory != nil {
		cMemoryLimit.put(to, float64(c.Memory.Limit), s[:]...)
	}
	if spec == nil {
		return
	}
	cPeriod.put(to, cfsPeriod, s[:]...)
	if limit := spec.Resources.Limits.Cpu(); limit != nil && !limit.IsZero() {
		cQuota.put(to, float64(limit.MilliValue()*cfsPeriod/1000), s[:]...)
	}
	cShares.put(to, float64(cgroupvalues.CPUShares(spec.Resources.Requests.Cpu().MilliValue())), s[:]...)
}

func (s subject) disk(to chan<- prometheus.Metric, c *usage.Container, disk *usage.PodDisk) {
	if disk == nil {
		return
	}
	used, whole := uint64(0), (*usage.Filesystem)(nil)
	for i := range disk.Containers {
		d := &disk.Containers[i]
		if d.ID == c.ID && d.Rootfs != nil {
			used, whole = used+d.Rootfs.Used, d.Rootfs
		}
		if d.Name == c.Name && d.Logs != nil {
			used += d.Logs.Used
		}
	}
	if whole == nil {
		return
	}
	l := append(s[:], "")
	cDiskUsage.put(to, float64(used), l...)
	cDiskLimit.put(to, float64(whole.Capacity), l...)
	cInodes.put(to, float64(whole.Inodes), l...)
	cInodesFree.put(to, float64(whole.InodesFree), l...)
}

// containerSpec returns the spec and the image of a container.
func containerSpec(pod *v1.Pod, name string) (*v1.Container, string) {
	if pod == nil {
		return nil, ""
	}
	if c := podinfo.FindContainer(&pod.Spec, name); c != nil {
		return c, c.Image
	}
	return nil, ""
}

// device returns the path of a block device by its number, as cAdvisor shows it.
func (d *cadvisorData) device(number string) string {
	path, known := d.devices[number]
	if known {
		return path
	}
	path = number
	major, minor, _ := strings.Cut(number, ":")
	if _, err := strconv.Atoi(major); err == nil {
		if link, err := os.Readlink("/sys/dev/block/" + major + ":" + minor); err == nil {
			path = "/dev/" + filepath.Base(link)
		}
	}
	d.devices[number] = path
	return path
}
