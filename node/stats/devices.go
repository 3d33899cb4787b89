package stats

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"github.com/podstead/podstead/internal/mounts"
	"github.com/podstead/podstead/internal/usage"
)

// localFilesystems are the types of file systems on block devices that respond without a
// network.
var localFilesystems = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "vfat"}

// measureDevices returns the block devices that have a mounted file system, each once.
func (c *Collector) measureDevices() (devices []usage.Device) {
	f, err := os.Open(filepath.Join(c.cfg.proc, "self/mountinfo"))
	if err != nil {
		return nil
	}
	defer f.Close()
	mounted, err := mounts.Read(f, mountinfo.FSTypeFilter(localFilesystems...))
	if err != nil {
		return nil
	}
	counters := c.diskCounters()
	var names []string
	for _, m := range mounted {
		if !strings.HasPrefix(m.Source, "/dev/") || slices.Contains(names, m.Source) {
			continue
		}
		fs, _, err := c.cfg.statfs(m.Mountpoint)
		if err != nil {
			continue // covered by another mount
		}
		names = append(names, m.Source)
		// The name of a mapped device is a link.
		name := m.Source
		if to, err := filepath.EvalSymlinks(name); err == nil {
			name = to
		}
		devices = append(devices, usage.Device{Name: m.Source, Filesystem: fs, IO: counters[filepath.Base(name)]})
	}
	return devices
}

// diskCounters reads /proc/diskstats, by the name of the device. A line has the numbers of
// the device, its name, and the counters; times are in milliseconds.
func (c *Collector) diskCounters() map[string]*usage.DiskCounters {
	data, err := os.ReadFile(filepath.Join(c.cfg.proc, "diskstats"))
	if err != nil {
		return nil
	}
	all := map[string]*usage.DiskCounters{}
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) < 14 {
			continue
		}
		number := func(i int) uint64 {
			n, _ := strconv.ParseUint(fields[3+i], 10, 64) // the kernel writes numbers
			return n
		}
		duration := func(i int) time.Duration { return time.Duration(number(i)) * time.Millisecond }
		all[fields[2]] = &usage.DiskCounters{
			Reads: number(0), ReadsMerged: number(1), SectorsRead: number(2), ReadTime: duration(3),
			Writes: number(4), WritesMerged: number(5), SectorsWritten: number(6), WriteTime: duration(7),
			InProgress: number(8), Time: duration(9), Weighted: duration(10),
		}
	}
	return all
}
