package stats

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/cgroup"
)

// maxDescriptors is the number of file descriptors of a container up to which they are
// counted. A container with more could make each measurement take seconds.
const maxDescriptors = 1 << 16

// Details returns what the kernel reports of cgroups and block devices, measured at most
// maxAge ago.
func (c *Collector) Details(ctx context.Context, maxAge time.Duration) (*usage.Details, error) {
	return c.details.get(ctx, maxAge, 0, c.measureDetails)
}

func (c *Collector) measureDetails(context.Context, *usage.Details) (*usage.Details, error) {
	d := &usage.Details{ByID: map[string]*usage.Cgroup{}, Sandboxes: map[string]usage.Usage{}, Devices: c.measureDevices()}
	reader := c.cfg.Cgroups
	if reader == nil {
		return d, nil
	}
	d.Node = c.cgroupDetails("/")
	for _, path := range cgroup.RootPaths(c.cfg.CgroupRoot) {
		if reader.Exists(path) {
			d.Pods = c.cgroupDetails(path)
			break
		}
	}
	observed := c.cfg.Observed()
	for i := range observed {
		pod := &observed[i]
		path := podCgroup(pod)
		if path != "" && reader.Exists(path) {
			d.ByID[string(pod.UID)] = c.cgroupDetails(path)
		}
		if p := c.cgroupPaths.find(reader, path, pod.SandboxID); p != "" && pod.SandboxReady {
			d.ByID[pod.SandboxID] = c.processDetails(p)
			if u, ok := c.readCgroup(p); ok {
				d.Sandboxes[pod.SandboxID] = u
			}
		}
		for j := range pod.Containers {
			container := &pod.Containers[j]
			if !container.Running {
				continue
			}
			if p := c.cgroupPaths.find(reader, path, container.ID); p != "" {
				d.ByID[container.ID] = c.processDetails(p)
			}
		}
	}
	return d, nil
}

func (c *Collector) cgroupDetails(path string) *usage.Cgroup {
	at := time.Now()
	d := c.cfg.Cgroups.Details(path)
	d.At = at
	return &d
}

// processDetails also examines the processes in the cgroup.
func (c *Collector) processDetails(path string) *usage.Cgroup {
	d := c.cgroupDetails(path)
	pids := c.cfg.Cgroups.Processes(path)
	p := &usage.Processes{Count: uint64(len(pids))}
	d.Processes = p
	if len(pids) == 0 {
		return d
	}
	p.MaxOpenFiles = c.maxOpenFiles(pids[0])
	var descriptors, sockets uint64
	for _, pid := range pids {
		if !c.countDescriptors(pid, &descriptors, &sockets) {
			return d
		}
	}
	p.FileDescriptors, p.Sockets = &descriptors, &sockets
	return d
}

func (c *Collector) process(pid int, file string) string {
	return filepath.Join(c.cfg.proc, strconv.Itoa(pid), file)
}

// countDescriptors adds the open files of a process. It returns false if there are too many
// to count. A process that has ended has none.
func (c *Collector) countDescriptors(pid int, descriptors, sockets *uint64) bool {
	dir, err := os.Open(c.process(pid, "fd"))
	if err != nil {
		return true
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		if *descriptors += uint64(len(names)); *descriptors > maxDescriptors {
			return false
		}
		for _, name := range names {
			if to, err := os.Readlink(filepath.Join(dir.Name(), name)); err == nil && strings.HasPrefix(to, "socket:") {
				*sockets++
			}
		}
		if err != nil {
			return true
		}
	}
}

// maxOpenFiles reads a line such as "Max open files  1024  524288  files": the soft limit and
// the hard one. It returns nil if the process has ended.
func (c *Collector) maxOpenFiles(pid int) *int64 {
	data, err := boundedfile.Head(c.process(pid, "limits"), 16<<10)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		rest, ok := bytes.CutPrefix(line, []byte("Max open files"))
		fields := bytes.Fields(rest)
		if !ok || len(fields) == 0 {
			continue
		}
		n, err := strconv.ParseInt(string(fields[0]), 10, 64)
		if string(fields[0]) == "unlimited" {
			n, err = -1, nil
		}
		if err != nil {
			return nil
		}
		return &n
	}
	return nil
}
