package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podstead/podstead/internal/usage"
)

// subject has the values of cadvisorLabels: container, id, image, name, namespace,
// pod.
type subject [6]string

// usage sends the series that every subject has.
func (s subject) usage(to chan<- prometheus.Metric, u *usage.Usage) {
	l := s[:]
	if c := u.CPU; c != nil {
		cCPU.sendAt(to, u.At, c.Total.Seconds(), append(l, "total")...)
		cUser.sendAt(to, u.At, c.User.Seconds(), l...)
		cSystem.sendAt(to, u.At, c.System.Seconds(), l...)
		if c.Periods > 0 {
			cPeriods.sendAt(to, u.At, float64(c.Periods), l...)
			cThrottled.sendAt(to, u.At, float64(c.Throttled), l...)
			cThrottle.sendAt(to, u.At, c.ThrottledTime.Seconds(), l...)
		}
	}
	if m := u.Memory; m != nil {
		cMemory.sendAt(to, u.At, float64(m.Usage), l...)
		cWorking.sendAt(to, u.At, float64(m.WorkingSet()), l...)
		cRSS.sendAt(to, u.At, float64(m.RSS), l...)
		cCache.sendAt(to, u.At, float64(m.Cache), l...)
		cSwap.sendAt(to, u.At, float64(m.Swap), l...)
		cMapped.sendAt(to, u.At, float64(m.MappedFile), l...)
		if m.Peak > 0 {
			cPeak.sendAt(to, u.At, float64(m.Peak), l...)
		}
		// The counts of the kernel include the cgroups below.
		for _, scope := range []string{"container", "hierarchy"} {
			cFailures.sendAt(to, u.At, float64(m.PageFaults), append(l, "pgfault", scope)...)
			cFailures.sendAt(to, u.At, float64(m.MajorPageFaults), append(l, "pgmajfault", scope)...)
		}
	}
	if u.Processes != nil {
		cThreads.sendAt(to, u.At, float64(*u.Processes), l...)
	}
}

// cgroup sends the series of the subject's cgroup that the kernel has.
func (s subject) cgroup(to chan<- prometheus.Metric, c *usage.Cgroup, nameOf func(number string) string) {
	l := s[:]
	s.limits(to, &c.Limits)
	if b := c.Burst; b != nil && c.Limits.CPU != nil && c.Limits.CPU.Quota > 0 {
		cBurstPeriods.sendAt(to, c.At, float64(b.Periods), l...)
		cBurst.sendAt(to, c.At, b.Time.Seconds(), l...)
	}
	for series, value := range map[*series]*uint64{
		&cKernel: c.Memory.Kernel, &cActiveFile: c.Memory.ActiveFile, &cInactiveFile: c.Memory.InactiveFile,
		&cLimitHits: c.Memory.LimitHits, &cOOM: c.Memory.OOMKills, &cThreadsMax: c.Limits.Threads,
	} {
		if value != nil {
			series.sendAt(to, c.At, float64(*value), l...)
		}
	}
	for _, p := range c.Pressure {
		pair := cPressure[p.Resource]
		pair.waiting.sendAt(to, c.At, p.Some.Seconds(), l...)
		pair.stalled.sendAt(to, c.At, p.Full.Seconds(), l...)
	}
	if p := c.Processes; p != nil {
		cProcesses.sendAt(to, c.At, float64(p.Count), l...)
		if p.FileDescriptors != nil && p.Sockets != nil {
			cDescriptors.sendAt(to, c.At, float64(*p.FileDescriptors), l...)
			cSockets.sendAt(to, c.At, float64(*p.Sockets), l...)
		}
		if p.MaxOpenFiles != nil {
			cUlimits.sendAt(to, c.At, float64(*p.MaxOpenFiles), append(l, "max_open_files")...)
		}
	}
	for i := range c.IO {
		s.io(to, c.At, &c.IO[i], nameOf(c.IO[i].Device))
	}
}

func (s subject) limits(to chan<- prometheus.Metric, limits *usage.Limits) {
	l := s[:]
	if c := limits.CPU; c != nil {
		if c.Period > 0 {
			cPeriod.send(to, float64(c.Period), l...)
		}
		if c.Quota > 0 {
			cQuota.send(to, float64(c.Quota), l...)
		}
		cShares.send(to, float64(c.Shares), l...)
	}
	if m := limits.Memory; m != nil {
		cMemoryLimit.send(to, float64(m.Limit), l...)
		cSwapLimit.send(to, float64(m.SwapLimit), l...)
		cReservation.send(to, float64(m.Reservation), l...)
	}
}

// io sends what a cgroup read from and wrote to a block device.
func (s subject) io(to chan<- prometheus.Metric, at time.Time, io *usage.DeviceIO, device string) {
	l := append(s[:], device)
	cReads.sendAt(to, at, float64(io.ReadOps), l...)
	cWrites.sendAt(to, at, float64(io.WriteOps), l...)
	cReadBytes.sendAt(to, at, float64(io.ReadBytes), l...)
	cWriteBytes.sendAt(to, at, float64(io.WriteBytes), l...)
	major, minor, _ := strings.Cut(io.Device, ":")
	cBlkio.sendAt(to, at, float64(io.ReadBytes), append(l, major, minor, "Read")...)
	cBlkio.sendAt(to, at, float64(io.WriteBytes), append(l, major, minor, "Write")...)
	if cost := io.Cost; cost != nil {
		cCostUsage.sendAt(to, at, cost.Usage.Seconds(), l...)
		cCostWait.sendAt(to, at, cost.Wait.Seconds(), l...)
		cCostDebt.sendAt(to, at, cost.Debt.Seconds(), l...)
		cCostDelay.sendAt(to, at, cost.Delay.Seconds(), l...)
	}
}

// device sends a block device of the node and its file system. counted reports that the
// cgroup of the node has counted its reads and writes already.
func (s subject) device(to chan<- prometheus.Metric, d *usage.Device, counted bool) {
	l := append(s[:], d.Name)
	cDiskUsage.sendAt(to, d.At, float64(d.Used), l...)
	cDiskLimit.sendAt(to, d.At, float64(d.Capacity), l...)
	cInodes.sendAt(to, d.At, float64(d.Inodes), l...)
	cInodesFree.sendAt(to, d.At, float64(d.InodesFree), l...)
	io := d.IO
	if io == nil {
		return
	}
	if !counted {
		cReads.sendAt(to, d.At, float64(io.Reads), l...)
		cWrites.sendAt(to, d.At, float64(io.Writes), l...)
	}
	cReadsMerged.sendAt(to, d.At, float64(io.ReadsMerged), l...)
	cWritesMerged.sendAt(to, d.At, float64(io.WritesMerged), l...)
	cSectorsRead.sendAt(to, d.At, float64(io.SectorsRead), l...)
	cSectorsWritten.sendAt(to, d.At, float64(io.SectorsWritten), l...)
	cReadTime.sendAt(to, d.At, io.ReadTime.Seconds(), l...)
	cWriteTime.sendAt(to, d.At, io.WriteTime.Seconds(), l...)
	cInProgress.sendAt(to, d.At, float64(io.InProgress), l...)
	cIOTime.sendAt(to, d.At, io.Time.Seconds(), l...)
	cWeightedIOTime.sendAt(to, d.At, io.Weighted.Seconds(), l...)
}

func (s subject) interfaces(to chan<- prometheus.Metric, at time.Time, list []usage.Interface) {
	for i := range list {
		f := &list[i]
		l := append(s[:], f.Name)
		rxBytes.sendAt(to, at, float64(f.RxBytes), l...)
		rxPackets.sendAt(to, at, float64(f.RxPackets), l...)
		rxErrors.sendAt(to, at, float64(f.RxErrors), l...)
		rxDropped.sendAt(to, at, float64(f.RxDropped), l...)
		txBytes.sendAt(to, at, float64(f.TxBytes), l...)
		txPackets.sendAt(to, at, float64(f.TxPackets), l...)
		txErrors.sendAt(to, at, float64(f.TxErrors), l...)
		txDropped.sendAt(to, at, float64(f.TxDropped), l...)
	}
}

// disk sends the disk usage of a container.
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
	cDiskUsage.send(to, float64(used), l...)
	cDiskLimit.send(to, float64(whole.Capacity), l...)
	cInodes.send(to, float64(whole.Inodes), l...)
	cInodesFree.send(to, float64(whole.InodesFree), l...)
}
