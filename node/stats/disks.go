package stats

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// diskTime is how long one look at the disks may take. What it does not come to
// is what the last look found, and comes first in the next.
const diskTime = 15 * time.Second

// Kinds of volumes, by their folders, that are not walked: what is in them is
// no part of the pod, and of a network's a server that is away would hold us.
const (
	pluginClaim = "kubernetes.io~local-volume"
	pluginNFS   = "kubernetes.io~nfs"
)

// measureDisks measures what pods hold on disk.
func (c *Collector) measureDisks(ctx context.Context, last *Disks) (*Disks, error) {
	ctx, cancel := context.WithTimeout(ctx, diskTime)
	defer cancel()
	result := &Disks{At: time.Now(), Pods: map[types.UID]*PodDisk{}}
	if last == nil {
		last = &Disks{}
	}
	pods := slices.Clone(c.cfg.Observed().Own)
	before := func(pod *cri.Pod) (at time.Time) {
		if d := last.Pods[pod.UID]; d != nil {
			at = d.At
		}
		return at
	}
	slices.SortStableFunc(pods, func(a, b *cri.Pod) int { return before(a).Compare(before(b)) })
	writable := c.writable(ctx)
	for _, pod := range pods {
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

// writable is what containers wrote to their root file systems, by ID: the
// runtime's figures, which it has in store.
func (c *Collector) writable(ctx context.Context) map[string]*cri.FilesystemStats {
	list, err := c.cfg.Runtime.ContainerStats(ctx)
	if err != nil {
		return nil // it is away, or does not tell
	}
	byID := map[string]*cri.FilesystemStats{}
	for i := range list {
		byID[list[i].ID] = list[i].Writable
	}
	return byID
}

// measureDisk is nil if time ran out before there was anything.
func (c *Collector) measureDisk(ctx context.Context, pod *cri.Pod, writable map[string]*cri.FilesystemStats) *PodDisk {
	if ctx.Err() != nil {
		return nil
	}
	d := &PodDisk{UID: pod.UID, At: time.Now()}
	logs := cri.LogDirectory(c.cfg.PodLogs, pod.Namespace, pod.Name, pod.UID)
	seen := map[string]bool{}
	for i := range pod.Containers {
		one := &pod.Containers[i]
		disk := ContainerDisk{Name: one.Name, ID: one.ID}
		if w := writable[one.ID]; w != nil {
			disk.Rootfs = &FS{At: w.At, Used: w.Used, InodesUsed: w.Inodes}
			if fs, _, err := c.cfg.statfs(w.Mount); err == nil {
				disk.Rootfs.setWhole(fs)
			}
		}
		// The instances of a container log into one folder.
		if !seen[one.Name] {
			seen[one.Name] = true
			disk.Logs = c.folder(ctx, d, filepath.Join(logs, one.Name))
		}
		if disk.Rootfs != nil || disk.Logs != nil {
			d.Containers = append(d.Containers, disk)
		}
	}
	plugins, _ := os.ReadDir(filepath.Join(c.cfg.Root, "pods", string(pod.UID), "volumes"))
	for _, plugin := range plugins {
		folder := filepath.Join(c.cfg.Root, "pods", string(pod.UID), "volumes", plugin.Name())
		volumes, _ := os.ReadDir(folder)
		for _, v := range volumes {
			if one, ok := c.volume(ctx, d, folder, plugin.Name(), v.Name()); ok {
				d.Volumes = append(d.Volumes, one)
			}
		}
	}
	return d
}

// volume measures one volume. What is a file system of its own tells itself
// what is used of it.
func (c *Collector) volume(ctx context.Context, d *PodDisk, folder, plugin, name string) (Volume, bool) {
	v := Volume{Name: name, Plugin: plugin}
	if plugin == pluginNFS {
		return v, false
	}
	path := filepath.Join(folder, name)
	whole, memory, err := c.cfg.statfs(path)
	switch {
	case err != nil:
		return v, false
	case plugin == pluginClaim:
		v.FS = whole
	case memory && c.mountedHere(path):
		v.FS, v.Memory = whole, true
	default:
		used := c.folder(ctx, d, path)
		if used == nil {
			return v, false
		}
		v.FS, v.Ephemeral = *used, true
	}
	return v, true
}

// mountedHere reports whether a folder is the top of a mount of its own: where
// the root folder lies in memory itself, its volumes do too.
func (c *Collector) mountedHere(path string) bool {
	own, err := idOf(path)
	above, err2 := idOf(filepath.Dir(path))
	return err == nil && err2 == nil && own != above
}

// folder walks through a folder, nil if it is not there.
func (c *Collector) folder(ctx context.Context, d *PodDisk, path string) *FS {
	used, err := walk(ctx, path)
	if err != nil {
		return nil
	}
	if used.incomplete {
		d.Incomplete = true
	}
	fs := &FS{At: time.Now(), Used: used.bytes, InodesUsed: used.inodes}
	if whole, _, err := c.cfg.statfs(path); err == nil {
		fs.setWhole(whole)
	}
	return fs
}

// setWhole takes over what is of the whole file system.
func (f *FS) setWhole(whole FS) {
	f.Capacity, f.Available = whole.Capacity, whole.Available
	f.Inodes, f.InodesFree = whole.Inodes, whole.InodesFree
}
