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
	"github.com/podstead/podstead/internal/usage"
)

// cadvisorAge is how old figures of interfaces and devices may be, diskAge those
// of disks, which are walked through.
const (
	cadvisorAge = time.Second
	diskAge     = time.Minute
)

// cadvisorLabels name a container, or a pod, or the node.
var cadvisorLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

func ofContainer(make func(string, string, ...string) series, name, help string, more ...string) series {
	return make(name, help, append(append([]string{}, cadvisorLabels...), more...)...)
}

var (
	cCPU       = ofContainer(counter, "container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", "cpu")
	cUser      = ofContainer(counter, "container_cpu_user_seconds_total", "Cumulative user cpu time consumed in seconds.")
	cSystem    = ofContainer(counter, "container_cpu_system_seconds_total", "Cumulative system cpu time consumed in seconds.")
	cPeriods   = ofContainer(counter, "container_cpu_cfs_periods_total", "Elapsed periods under a cpu quota.")
	cThrottled = ofContainer(counter, "container_cpu_cfs_throttled_periods_total", "Periods in which the cpu quota held it back.")
	cThrottle  = ofContainer(counter, "container_cpu_cfs_throttled_seconds_total", "Time for which the cpu quota held it back.")

	cMemory   = ofContainer(gauge, "container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed.")
	cWorking  = ofContainer(gauge, "container_memory_working_set_bytes", "Current working set in bytes.")
	cRSS      = ofContainer(gauge, "container_memory_rss", "Size of RSS in bytes.")
	cCache    = ofContainer(gauge, "container_memory_cache", "Size of page cache memory in bytes.")
	cSwap     = ofContainer(gauge, "container_memory_swap", "Swap usage in bytes.")
	cMapped   = ofContainer(gauge, "container_memory_mapped_file", "Size of memory mapped files in bytes.")
	cPeak     = ofContainer(gauge, "container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes.")
	cFailures = ofContainer(counter, "container_memory_failures_total", "Cumulative count of memory allocation failures.", "failure_type", "scope")

	cProcesses = ofContainer(gauge, "container_threads", "Number of processes and threads running inside.")
	cStart     = ofContainer(gauge, "container_start_time_seconds", "Start time in seconds since 1970.")
	cSeen      = ofContainer(gauge, "container_last_seen", "When it was last seen, in seconds since 1970.")

	cPeriod      = ofContainer(gauge, "container_spec_cpu_period", "Cpu period of the container in microseconds.")
	cQuota       = ofContainer(gauge, "container_spec_cpu_quota", "Cpu quota of the container in microseconds.")
	cShares      = ofContainer(gauge, "container_spec_cpu_shares", "Cpu shares of the container.")
	cMemoryLimit = ofContainer(gauge, "container_spec_memory_limit_bytes", "Memory limit; 0 is none.")

	cReads      = ofContainer(counter, "container_fs_reads_total", "Cumulative count of reads completed.", "device")
	cWrites     = ofContainer(counter, "container_fs_writes_total", "Cumulative count of writes completed.", "device")
	cReadBytes  = ofContainer(counter, "container_fs_reads_bytes_total", "Cumulative count of bytes read.", "device")
	cWriteBytes = ofContainer(counter, "container_fs_writes_bytes_total", "Cumulative count of bytes written.", "device")
	cDiskUsage  = ofContainer(gauge, "container_fs_usage_bytes", "Bytes that are consumed on this file system, of the root file system and the log.", "device")
	cDiskLimit  = ofContainer(gauge, "container_fs_limit_bytes", "Bytes that there are on this file system.", "device")
	cInodes     = ofContainer(gauge, "container_fs_inodes_total", "Inodes of this file system.", "device")
	cInodesFree = ofContainer(gauge, "container_fs_inodes_free", "Free inodes of this file system.", "device")

	network = func(way, what, help string) series {
		return ofContainer(counter, "container_network_"+way+"_"+what+"_total", help, "interface")
	}
	rxBytes   = network("receive", "bytes", "Cumulative count of bytes received.")
	rxPackets = network("receive", "packets", "Cumulative count of packets received.")
	rxErrors  = network("receive", "errors", "Cumulative count of errors encountered while receiving.")
	rxDropped = network("receive", "packets_dropped", "Cumulative count of packets dropped while receiving.")
	txBytes   = network("transmit", "bytes", "Cumulative count of bytes transmitted.")
	txPackets = network("transmit", "packets", "Cumulative count of packets transmitted.")
	txErrors  = network("transmit", "errors", "Cumulative count of errors encountered while transmitting.")
	txDropped = network("transmit", "packets_dropped", "Cumulative count of packets dropped while transmitting.")

	machineCores  = gauge("machine_cpu_cores", "Number of logical CPU cores.")
	machineMemory = gauge("machine_memory_bytes", "Amount of memory installed on the machine.")
	machineSwap   = gauge("machine_swap_bytes", "Amount of swap memory available on the machine.")
)

// cadvisorData is what a scrape shows.
type cadvisorData struct {
	node    *usage.Node
	pods    *usage.Pods
	disks   *usage.Disks
	traffic map[types.UID][]usage.Interface
	io      map[string][]usage.DeviceIO
	specs   map[types.UID]*v1.Pod
	devices map[string]string
}

// cadvisor collects the series of containers that dashboards use.
func (s *Sources) cadvisor(ctx context.Context) (collected, error) {
	var d cadvisorData
	var err error
	if d.node, err = s.Stats.Node(ctx, cadvisorAge); err != nil {
		return nil, err
	}
	if d.pods, err = s.Stats.Pods(ctx, cadvisorAge); err != nil {
		return nil, err
	}
	if d.disks, err = s.Stats.Disks(ctx, diskAge); err != nil {
		return nil, err
	}
	if d.traffic, err = s.Stats.Traffic(ctx, cadvisorAge); err != nil {
		return nil, err
	}
	if d.io, err = s.Stats.IO(ctx, cadvisorAge); err != nil {
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
	for _, pod := range running(d.pods) {
		d.pod(to, pod)
	}
}

// subject is what a series is about: container, id, image, name, namespace, pod.
type subject [6]string

func (d *cadvisorData) pod(to chan<- prometheus.Metric, pod *usage.Pod) {
	spec := d.specs[pod.UID]
	id := "/pod" + string(pod.UID)
	of := subject{"", id, "", "", pod.Namespace, pod.Name}
	of.usage(to, &pod.Usage)
	cStart.at(to, pod.At, seconds(pod.StartedAt), of[:]...)
	// The network belongs to the sandbox.
	sandbox := subject{"", id + "/" + pod.SandboxID, "", pod.SandboxID, pod.Namespace, pod.Name}
	sandbox.interfaces(to, pod.At, d.traffic[pod.UID])
	disk := d.disks.Pods[pod.UID]
	for i := range pod.Containers {
		c := &pod.Containers[i]
		spec, image := containerSpec(spec, c.Name)
		of := subject{c.Name, id + "/" + c.ID, image, c.ID, pod.Namespace, pod.Name}
		of.usage(to, &c.Usage)
		cStart.at(to, c.At, seconds(c.CreatedAt), of[:]...)
		cSeen.put(to, seconds(c.At), of[:]...)
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

// usage gives what every subject has.
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

// cfsPeriod is the kubelet's, in microseconds.
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

// containerSpec is a container's in its pod, with the image that it runs.
func containerSpec(pod *v1.Pod, name string) (*v1.Container, string) {
	if pod == nil {
		return nil, ""
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], list[i].Image
			}
		}
	}
	return nil, ""
}

// device is the path of a block device by its number, as cAdvisor shows it.
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
