package stats

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/mounts"
	"github.com/podstead/podstead/internal/usage"
)

// diskTimeout limits one measurement of the disks. Pods that it does not reach
// keep their last result and are measured first in the next one.
const diskTimeout = 15 * time.Second

// Volume plugins that are not measured with the pod but by Claims: the content does not belong
// to the pod, may be large, and a server that is down would block the measurement.
const (
	pluginClaim = "kubernetes.io~local-volume"
	pluginNFS   = "kubernetes.io~nfs"
	pluginCSI   = "kubernetes.io~csi"
)

// measureDisks measures the disk usage of the pods.
func (c *Collector) measureDisks(ctx context.Context, last *usage.Disks) (*usage.Disks, error) {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	result := &usage.Disks{At: time.Now(), Pods: map[types.UID]*usage.PodDisk{}}
	if last == nil {
		last = &usage.Disks{}
	}
	// The order of the shared list must not change.
	pods := slices.Clone(c.cfg.Observed())
	measuredAt := func(pod *ObservedPod) (at time.Time) {
		if d := last.Pods[pod.UID]; d != nil {
			at = d.At
		}
		return at
	}
	slices.SortStableFunc(pods, func(a, b ObservedPod) int { return measuredAt(&a).Compare(measuredAt(&b)) })
	writable := c.writableLayers(ctx)
	for i := range pods {
		pod := &pods[i]
		disk := c.measureDisk(ctx, pod, writable)
		if disk == nil || context.Cause(ctx) != nil {
			if disk = last.Pods[pod.UID]; disk == nil {
				continue
			}
		}
		result.Pods[pod.UID] = disk
	}
	return result, nil
}

// writableLayers returns the usage of the containers' writable layers by
// container ID, as the runtime keeps it.
func (c *Collector) writableLayers(ctx context.Context) map[string]*usage.RuntimeFilesystem {
	list, err := c.cfg.Runtime.ContainerUsage(ctx)
	if err != nil {
		return nil // the runtime is down
	}
	byID := make(map[string]*usage.RuntimeFilesystem, len(list))
	for i := range list {
		byID[list[i].ID] = list[i].Writable
	}
	return byID
}

// measureDisk returns nil if the time is over before it begins.
func (c *Collector) measureDisk(ctx context.Context, pod *ObservedPod,
	writable map[string]*usage.RuntimeFilesystem) *usage.PodDisk {
	if ctx.Err() != nil {
		return nil
	}
	d := &usage.PodDisk{UID: pod.UID, At: time.Now()}
	logs := c.cfg.LogDirectory(pod.Namespace, pod.Name, pod.UID)
	seen := map[string]bool{}
	for i := range pod.Containers {
		container := &pod.Containers[i]
		disk := usage.ContainerDisk{Name: container.Name, ID: container.ID}
		if w := writable[container.ID]; w != nil {
			disk.Rootfs = &usage.Filesystem{At: w.At, Used: w.Used, InodesUsed: w.Inodes}
			if fs, _, err := c.cfg.statfs(w.Mount); err == nil {
				disk.Rootfs.SetTotals(fs)
			}
		}
		// All instances of a container log into one directory.
		if !seen[container.Name] {
			seen[container.Name] = true
			disk.Logs = c.measureDirectory(ctx, d, filepath.Join(logs, container.Name))
		}
		if disk.Rootfs != nil || disk.Logs != nil {
			d.Containers = append(d.Containers, disk)
		}
	}
	d.Files = c.measurePodFiles(ctx, d, filepath.Join(c.cfg.Root, "pods", string(pod.UID)))
	volumes := filepath.Join(c.cfg.Root, "pods", string(pod.UID), "volumes")
	plugins, _ := os.ReadDir(volumes)
	for _, plugin := range plugins {
		directory := filepath.Join(volumes, plugin.Name())
		entries, _ := os.ReadDir(directory)
		for _, entry := range entries {
			if v, ok := c.measureVolume(ctx, d, directory, plugin.Name(), entry.Name()); ok {
				d.Volumes = append(d.Volumes, v)
			}
		}
	}
	return d
}

// messagesDirectory is the directory of the termination messages in that of a pod.
const messagesDirectory = "containers"

// measurePodFiles measures the files of a pod's directory to which containers can
// write as much as they want: the one that is mounted as /etc/hosts, and the
// termination messages. It returns nil if there are none.
func (c *Collector) measurePodFiles(ctx context.Context, d *usage.PodDisk, directory string) *usage.Filesystem {
	total := c.measureDirectory(ctx, d, filepath.Join(directory, messagesDirectory))
	entries, _ := os.ReadDir(directory)
	for _, entry := range entries {
		var st unix.Stat_t
		if !entry.Type().IsRegular() || unix.Lstat(filepath.Join(directory, entry.Name()), &st) != nil {
			continue
		}
		if total == nil {
			total = &usage.Filesystem{At: time.Now()}
		}
		total.Used, total.InodesUsed = total.Used+uint64(st.Blocks)*512, total.InodesUsed+1
	}
	return total
}

// measureVolume measures one volume, except for those that Claims measures. A volume that is a
// file system of its own is not walked.
func (c *Collector) measureVolume(ctx context.Context, d *usage.PodDisk, directory, plugin, name string) (usage.Volume,
	bool) {
	v := usage.Volume{Name: name, Plugin: plugin}
	if plugin == pluginCSI {
		return v, false // measured as a claim, or the driver's
	}
	path := filepath.Join(directory, name)
	if plugin == pluginNFS || plugin == pluginClaim {
		v.Path = claimPath(plugin, path)
		return v, v.Path != ""
	}
	whole, memory, err := c.cfg.statfs(path)
	if err != nil {
		return v, false
	}
	if memory {
		// If the root directory itself is in memory, so are the volumes that are not.
		memory, _ = mounts.IsMountPoint(path)
	}
	switch {
	case memory:
		v.Filesystem, v.Memory = whole, true
	default:
		used := c.measureDirectory(ctx, d, path)
		if used == nil {
			return v, false
		}
		v.Filesystem, v.Ephemeral = *used, true
	}
	return v, true
}

// measureDirectory walks a directory. It returns nil if the directory does not
// exist.
func (c *Collector) measureDirectory(ctx context.Context, d *usage.PodDisk, path string) *usage.Filesystem {
	used, err := walk(ctx, path)
	if err != nil {
		return nil
	}
	if used.incomplete {
		d.Incomplete = true
	}
	fs := &usage.Filesystem{At: time.Now(), Used: used.bytes, InodesUsed: used.inodes}
	if whole, _, err := c.cfg.statfs(path); err == nil {
		fs.SetTotals(whole)
	}
	return fs
}
