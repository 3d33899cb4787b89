package metrics

// cadvisorLabels identify a container, a pod, or the node.
var cadvisorLabels = []string{"container", "id", "image", "name", "namespace", "pod"}

func containerSeries(make func(string, string, ...string) series, name, help string, more ...string) series {
	return make(name, help, append(append([]string{}, cadvisorLabels...), more...)...)
}

// The series that the kubelet takes from cAdvisor. Left out are those that are always 0
// there, such as the load average.
var (
	cCPU = containerSeries(counter, "container_cpu_usage_seconds_total",
		"Cumulative CPU time consumed in seconds.", "cpu")
	cUser = containerSeries(counter, "container_cpu_user_seconds_total",
		"Cumulative user CPU time consumed in seconds.")
	cSystem = containerSeries(counter, "container_cpu_system_seconds_total",
		"Cumulative system CPU time consumed in seconds.")
	cPeriods = containerSeries(counter, "container_cpu_cfs_periods_total",
		"Number of elapsed periods under a CPU quota.")
	cThrottled = containerSeries(counter, "container_cpu_cfs_throttled_periods_total", "Number of throttled periods.")
	cThrottle  = containerSeries(counter, "container_cpu_cfs_throttled_seconds_total",
		"Total time of throttling in seconds.")
	cBurstPeriods = containerSeries(counter, "container_cpu_cfs_burst_periods_total",
		"Number of periods with a CPU burst.")
	cBurst = containerSeries(counter, "container_cpu_cfs_burst_seconds_total", "Total time of CPU bursts in seconds.")

	cMemory = containerSeries(gauge, "container_memory_usage_bytes",
		"Current memory usage in bytes, including all memory regardless of when it was accessed.")
	cWorking    = containerSeries(gauge, "container_memory_working_set_bytes", "Current working set in bytes.")
	cRSS        = containerSeries(gauge, "container_memory_rss", "Size of RSS in bytes.")
	cCache      = containerSeries(gauge, "container_memory_cache", "Size of page cache memory in bytes.")
	cSwap       = containerSeries(gauge, "container_memory_swap", "Swap usage in bytes.")
	cMapped     = containerSeries(gauge, "container_memory_mapped_file", "Size of memory mapped files in bytes.")
	cPeak       = containerSeries(gauge, "container_memory_max_usage_bytes", "Maximum memory usage recorded in bytes.")
	cKernel     = containerSeries(gauge, "container_memory_kernel_usage", "Size of kernel memory allocated in bytes.")
	cActiveFile = containerSeries(gauge, "container_memory_total_active_file_bytes",
		"Size of the active page cache in bytes.")
	cInactiveFile = containerSeries(gauge, "container_memory_total_inactive_file_bytes",
		"Size of the inactive page cache in bytes.")
	cLimitHits = containerSeries(counter, "container_memory_failcnt",
		"Number of times that memory usage reached its limit.")
	cFailures = containerSeries(counter, "container_memory_failures_total", "Cumulative count of page faults by type.",
		"failure_type", "scope")
	cOOM = containerSeries(counter, "container_oom_events_total",
		"Count of processes that the kernel killed for lack of memory.")

	cProcesses  = containerSeries(gauge, "container_processes", "Number of processes in the container.")
	cThreads    = containerSeries(gauge, "container_threads", "Number of processes and threads in the container.")
	cThreadsMax = containerSeries(gauge, "container_threads_max",
		"Maximum number of processes and threads in the container; 0 is no limit.")
	cDescriptors = containerSeries(gauge, "container_file_descriptors",
		"Number of open file descriptors of the container.")
	cSockets = containerSeries(gauge, "container_sockets", "Number of open sockets of the container.")
	cUlimits = containerSeries(gauge, "container_ulimits_soft",
		"Soft limits of the first process of the container; -1 is no limit.", "ulimit")
	cStart = containerSeries(gauge, "container_start_time_seconds", "Start time in seconds since the Unix epoch.")
	cSeen  = containerSeries(gauge, "container_last_seen", "Time of the last measurement in seconds since the Unix epoch.")

	cPeriod      = containerSeries(gauge, "container_spec_cpu_period", "CPU period in force in microseconds.")
	cQuota       = containerSeries(gauge, "container_spec_cpu_quota", "CPU quota in force in microseconds.")
	cShares      = containerSeries(gauge, "container_spec_cpu_shares", "CPU shares in force.")
	cMemoryLimit = containerSeries(gauge, "container_spec_memory_limit_bytes",
		"Memory limit in force in bytes; 0 is no limit.")
	cSwapLimit = containerSeries(gauge, "container_spec_memory_swap_limit_bytes",
		"Swap limit in force in bytes; 0 is no limit.")
	cReservation = containerSeries(gauge, "container_spec_memory_reservation_limit_bytes",
		"Memory reservation in force in bytes; 0 is none.")
)

// Block devices and file systems.
var (
	cReads          = deviceSeries(counter, "reads_total", "Cumulative count of reads completed.")
	cWrites         = deviceSeries(counter, "writes_total", "Cumulative count of writes completed.")
	cReadBytes      = deviceSeries(counter, "reads_bytes_total", "Cumulative count of bytes read.")
	cWriteBytes     = deviceSeries(counter, "writes_bytes_total", "Cumulative count of bytes written.")
	cReadsMerged    = deviceSeries(counter, "reads_merged_total", "Cumulative count of reads merged.")
	cWritesMerged   = deviceSeries(counter, "writes_merged_total", "Cumulative count of writes merged.")
	cSectorsRead    = deviceSeries(counter, "sector_reads_total", "Cumulative count of sectors read.")
	cSectorsWritten = deviceSeries(counter, "sector_writes_total", "Cumulative count of sectors written.")
	cReadTime       = deviceSeries(counter, "read_seconds_total", "Cumulative time of reads in seconds.")
	cWriteTime      = deviceSeries(counter, "write_seconds_total", "Cumulative time of writes in seconds.")
	cInProgress     = deviceSeries(gauge, "io_current", "Number of I/Os in progress.")
	cIOTime         = deviceSeries(counter, "io_time_seconds_total", "Cumulative time spent with I/O in seconds.")
	cWeightedIOTime = deviceSeries(counter, "io_time_weighted_seconds_total",
		"Cumulative time of I/Os, weighted by their number, in seconds.")
	cCostUsage = deviceSeries(counter, "io_cost_usage_seconds_total", "Cumulative I/O cost in seconds.")
	cCostWait  = deviceSeries(counter, "io_cost_wait_seconds_total",
		"Cumulative time of waiting for the I/O cost in seconds.")
	cCostDebt  = deviceSeries(counter, "io_cost_indebt_seconds_total", "Cumulative time in debt of I/O cost in seconds.")
	cCostDelay = deviceSeries(counter, "io_cost_indelay_seconds_total",
		"Cumulative time of delays for the I/O cost in seconds.")
	cDiskUsage = deviceSeries(gauge, "usage_bytes",
		"Bytes used by the writable layer and the logs of the container, or on the file system.")
	cDiskLimit  = deviceSeries(gauge, "limit_bytes", "Capacity in bytes of the file system.")
	cInodes     = deviceSeries(gauge, "inodes_total", "Number of inodes of the file system.")
	cInodesFree = deviceSeries(gauge, "inodes_free", "Number of free inodes of the file system.")

	cBlkio = containerSeries(counter, "container_blkio_device_usage_total",
		"Cumulative count of bytes by device and operation.", "device", "major", "minor", "operation")
)

func deviceSeries(make func(string, string, ...string) series, name, help string) series {
	return containerSeries(make, "container_fs_"+name, help, "device")
}

var (
	rxBytes   = networkSeries("receive_bytes", "Cumulative count of bytes received.")
	rxPackets = networkSeries("receive_packets", "Cumulative count of packets received.")
	rxErrors  = networkSeries("receive_errors", "Cumulative count of errors encountered while receiving.")
	rxDropped = networkSeries("receive_packets_dropped", "Cumulative count of packets dropped while receiving.")
	txBytes   = networkSeries("transmit_bytes", "Cumulative count of bytes transmitted.")
	txPackets = networkSeries("transmit_packets", "Cumulative count of packets transmitted.")
	txErrors  = networkSeries("transmit_errors", "Cumulative count of errors encountered while transmitting.")
	txDropped = networkSeries("transmit_packets_dropped", "Cumulative count of packets dropped while transmitting.")
)

func networkSeries(name, help string) series {
	return containerSeries(counter, "container_network_"+name+"_total", help, "interface")
}

// cPressure are the series of pressure by resource: some processes waited, all of them did.
var cPressure = map[string]struct{ waiting, stalled series }{
	"cpu": pressureSeries("cpu", "CPU"), "memory": pressureSeries("memory", "memory"), "io": pressureSeries("io", "I/O"),
}

func pressureSeries(resource, title string) struct{ waiting, stalled series } {
	return struct{ waiting, stalled series }{
		containerSeries(counter, "container_pressure_"+resource+"_waiting_seconds_total",
			"Total time in seconds in which processes waited for "+title+"."),
		containerSeries(counter, "container_pressure_"+resource+"_stalled_seconds_total",
			"Total time in seconds in which all processes waited for "+title+"."),
	}
}

// machineLabels identify the machine.
var machineLabels = []string{"machine_id", "system_uuid", "boot_id"}

var (
	machineCores         = gauge("machine_cpu_cores", "Number of logical CPUs.", machineLabels...)
	machinePhysicalCores = gauge("machine_cpu_physical_cores", "Number of physical CPU cores.", machineLabels...)
	machineSockets       = gauge("machine_cpu_sockets", "Number of CPU sockets.", machineLabels...)
	machineMemory        = gauge("machine_memory_bytes", "Memory of the node in bytes.", machineLabels...)
	machineSwap          = gauge("machine_swap_bytes", "Swap of the node in bytes.", machineLabels...)

	versionInfo = gauge("cadvisor_version_info", "Constant 1 with the kernel and the operating system of the node.",
		"kernelVersion", "osVersion", "dockerVersion", "cadvisorVersion", "cadvisorRevision")
	containerErrors = gauge("container_scrape_error",
		"1 if some container metrics are missing because of an error, otherwise 0.")
	machineErrors = gauge("machine_scrape_error", "1 if machine metrics are missing because of an error, otherwise 0.")
)
