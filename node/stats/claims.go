package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/mounts"
	"github.com/podstead/podstead/internal/usage"
)

// driverTimeout is how long a driver may take to report the usage of a volume.
const driverTimeout = 3 * time.Second

// hangGrace is how long a measurement may take to notice that its time is over, before its file
// system counts as one that does not respond.
const hangGrace = time.Second

// driverErrorKeep is how old the last usage of a volume may be while its driver fails to report it: a driver
// that restarts leaves no gap, and one that stays away does not have its old figures shown as those of today.
const driverErrorKeep = 5 * time.Minute

// claimMeter measures the volumes of claims. Their directories may be large, and their file
// systems may hang, so that they are measured apart from what eviction needs.
type claimMeter struct {
	shared[usage.ClaimVolumes]
	// latest is the last measurement, also while one runs.
	latest atomic.Pointer[usage.ClaimVolumes]
	// tried is when each path was last measured, or tried. The running measurement uses it.
	tried map[string]time.Time

	mu sync.Mutex
	// hanging are the paths on file systems that do not respond.
	hanging map[string]bool
}

func newClaimMeter() claimMeter {
	return claimMeter{shared: newShared[usage.ClaimVolumes](), hanging: map[string]bool{}}
}

// Claims returns the usage of the volumes of claims and of network file systems: of those that pods
// use, and of those at paths. It was measured at most maxAge ago, or longer ago if measuring would
// never pause. When ctx ends first, it returns what was last measured, and the measurement goes on
// for the next caller. What was not measured is absent.
func (c *Collector) Claims(ctx context.Context, maxAge time.Duration, paths []string) usage.ClaimVolumes {
	measured := make(chan usage.ClaimVolumes, 1)
	go func() {
		volumes, _ := c.claims.get(context.WithoutCancel(ctx), maxAge, diskPause,
			func(ctx context.Context, last usage.ClaimVolumes) (usage.ClaimVolumes, error) {
				return c.measureClaims(ctx, last, paths), nil // never fails
			})
		measured <- volumes
	}()
	select {
	case volumes := <-measured:
		return volumes
	case <-ctx.Done():
	}
	if latest := c.claims.latest.Load(); latest != nil {
		return *latest
	}
	return nil
}

// claimPath returns where the volume of a pod's claim is; empty if it is gone.
func claimPath(plugin, path string) string {
	if plugin == pluginNFS {
		return path
	}
	target, err := os.Readlink(path)
	if err != nil {
		return ""
	}
	return target
}

// usedPaths returns the paths of the volumes that pods use and that Claims measures.
func (c *Collector) usedPaths() (paths []string) {
	pods := filepath.Join(c.cfg.Root, "pods")
	entries, _ := os.ReadDir(pods)
	for _, pod := range entries {
		for _, plugin := range []string{pluginClaim, pluginNFS} {
			directory := filepath.Join(pods, pod.Name(), "volumes", plugin)
			volumes, _ := os.ReadDir(directory)
			for _, volume := range volumes {
				if path := claimPath(plugin, filepath.Join(directory, volume.Name())); path != "" {
					paths = append(paths, path)
				}
			}
		}
	}
	return paths
}

// measureClaims measures the volumes that were not measured for longest first, until the time is
// over. Those that it does not reach keep their last result.
func (c *Collector) measureClaims(ctx context.Context, last usage.ClaimVolumes, paths []string) usage.ClaimVolumes {
	ctx, cancel := context.WithTimeout(ctx, diskTimeout)
	defer cancel()
	result, tried := usage.ClaimVolumes{}, map[string]time.Time{}
	paths = slices.Concat(paths, c.usedPaths())
	slices.Sort(paths)
	paths = slices.Compact(paths)
	slices.SortStableFunc(paths, func(a, b string) int { return c.claims.tried[a].Compare(c.claims.tried[b]) })
	points := c.mountPoints()
	for i, path := range paths {
		before := last[path]
		if ctx.Err() != nil {
			tried[path] = c.claims.tried[path]
		} else {
			tried[path] = time.Now()
			volume, known := c.measureUnlessHanging(ctx, path, before, points)
			// The first one had all the time there is: what it reports now is all that is to be had.
			if known && (volume == nil || !volume.Incomplete || before == nil || before.Incomplete || i == 0) {
				before = volume
			}
		}
		if before != nil {
			result[path] = before
		}
	}
	c.claims.tried = tried
	c.claims.latest.Store(&result)
	return result
}

// measureUnlessHanging measures a volume, unless its file system does not respond: then known is
// false until it does. A system call that hangs cannot be ended, so that its goroutine stays as
// long.
func (c *Collector) measureUnlessHanging(ctx context.Context, path string, before *usage.ClaimVolume,
	points []*mountinfo.Info) (volume *usage.ClaimVolume, known bool) {
	m := &c.claims
	m.mu.Lock()
	hangs := m.hanging[path]
	m.hanging[path] = true
	m.mu.Unlock()
	if hangs {
		return nil, false
	}
	measured := make(chan *usage.ClaimVolume, 1)
	go func() {
		volume := c.measureClaim(ctx, path, before, points)
		m.mu.Lock()
		delete(m.hanging, path)
		m.mu.Unlock()
		measured <- volume
	}()
	deadline, _ := ctx.Deadline()
	timeout := time.NewTimer(time.Until(deadline) + hangGrace)
	defer timeout.Stop()
	select {
	case volume := <-measured:
		return volume, true
	case <-timeout.C:
		return nil, false
	}
}

// measureClaim measures one volume; nil if it cannot be measured, as a directory that is gone. A
// volume that is a file system of its own is not walked. While its driver fails, it keeps the usage from before
// for driverErrorKeep.
func (c *Collector) measureClaim(ctx context.Context, path string, before *usage.ClaimVolume,
	points []*mountinfo.Info) *usage.ClaimVolume {
	volume, err := c.askDriver(ctx, path)
	switch {
	case err != nil && before != nil && time.Since(before.At) < driverErrorKeep:
		return before
	case err != nil:
		return nil
	case volume != nil:
		return volume
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil
	}
	if size, ok := deviceSize(real); ok {
		return &usage.ClaimVolume{Filesystem: usage.Filesystem{At: time.Now(), Capacity: size}, Block: true}
	}
	whole, _, err := c.cfg.statfs(real)
	if err != nil {
		return nil
	}
	network := filepath.Base(filepath.Dir(path)) == pluginNFS
	switch m := mountedOn(points, real); {
	case m != nil && (network || m.Root == "/"):
		return &usage.ClaimVolume{Filesystem: whole}
	case network:
		return nil // not mounted yet
	}
	if q, err := c.cfg.quotaOf(real); err == nil && q.Accounted {
		// The kernel has counted it, and limits the totals to the quota.
		v := &usage.ClaimVolume{Filesystem: usage.Filesystem{At: time.Now(), Used: q.Used, InodesUsed: q.Inodes},
			Limit: q.Limit}
		v.SetTotals(whole)
		return v
	}
	used, err := walk(ctx, real)
	if err != nil {
		return nil
	}
	v := &usage.ClaimVolume{Filesystem: usage.Filesystem{At: time.Now(), Used: used.bytes, InodesUsed: used.inodes},
		Incomplete: used.incomplete}
	v.SetTotals(whole)
	return v
}

// askDriver asks the driver of the volume at a path; nil if there is none that reports its usage.
func (c *Collector) askDriver(ctx context.Context, path string) (*usage.ClaimVolume, error) {
	if c.cfg.DriverUsage == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, driverTimeout)
	defer cancel()
	volume, err := c.cfg.DriverUsage(ctx, path)
	if err != nil {
		c.log.Debug("Failed to read the usage of a volume from its driver", "path", path, "err", err)
	}
	return volume, err
}

// deviceSize returns the size of a block device in bytes; false if a path is not one.
func deviceSize(path string) (uint64, bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, false
	}
	data, err := boundedfile.Head(
		fmt.Sprintf("/sys/dev/block/%d:%d/size", unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev))), 64)
	if err != nil {
		return 0, true
	}
	sectors, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, true
	}
	return sectors * 512, true
}

// mountPoints returns what is mounted.
func (c *Collector) mountPoints() []*mountinfo.Info {
	f, err := os.Open(filepath.Join(c.cfg.proc, "self/mountinfo"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.log.Debug("Failed to read mounts", "err", err)
		}
		return nil
	}
	defer f.Close()
	points, err := mounts.Read(f, nil)
	if err != nil {
		c.log.Debug("Failed to read mounts", "err", err)
	}
	return points
}

// mountedOn returns what is mounted on a path, nil if nothing is. Its root is / if it is a whole
// file system, not a directory of one that may have other directories. The last mount on a path
// covers the others.
func mountedOn(points []*mountinfo.Info, path string) *mountinfo.Info {
	for _, m := range slices.Backward(points) {
		if m.Mountpoint == path {
			return m
		}
	}
	return nil
}
