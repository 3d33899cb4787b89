package stats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
)

// measurePods measures all pods that run.
func (c *Collector) measurePods(ctx context.Context, _ *Pods) (*Pods, error) {
	observed := c.cfg.Observed()
	result := &Pods{At: time.Now()}
	c.found.keep(observed.Own)
	var lacking []int
	for _, pod := range observed.Own {
		one, whole, ok := c.measurePod(pod)
		if !ok {
			continue
		}
		if !whole {
			lacking = append(lacking, len(result.Pods))
		}
		result.Pods = append(result.Pods, one)
	}
	if len(lacking) > 0 {
		c.tell(c.askRuntime(ctx, result, lacking))
	}
	c.podRates.begin()
	for i := range result.Pods {
		pod := &result.Pods[i]
		for j := range pod.Containers {
			one := &pod.Containers[j]
			if one.CPU == nil && one.Memory == nil {
				result.Missing++
			}
			c.podRates.add(one.ID, one.CPU, one.At, one.CreatedAt)
		}
		if pod.CPU == nil && pod.Memory == nil {
			pod.sum()
		}
		c.podRates.add(string(pod.UID), pod.CPU, pod.At, pod.StartedAt)
	}
	c.podRates.end()
	return result, nil
}

// measurePod reads the cgroups of a pod. whole says that all of it could be
// read, ok that the pod runs.
func (c *Collector) measurePod(pod *cri.Pod) (p Pod, whole, ok bool) {
	p = Pod{UID: pod.UID, Name: pod.Name, Namespace: pod.Namespace}
	if len(pod.Sandboxes) > 0 && pod.Sandboxes[0].Ready {
		p.SandboxID, p.StartedAt = pod.Sandboxes[0].ID, pod.Sandboxes[0].CreatedAt
		ok = true
	}
	path := podPath(pod)
	whole = true
	for i := range pod.Containers {
		running := &pod.Containers[i]
		if running.State != cri.StateRunning {
			continue
		}
		ok = true
		one := Container{Name: running.Name, ID: running.ID, CreatedAt: running.CreatedAt}
		var read bool
		if one.Usage, read = c.read(c.found.find(c.cfg.Cgroups, path, running.ID)); !read {
			whole = false
		}
		p.Containers = append(p.Containers, one)
	}
	if path == "" {
		return p, whole, ok // it is what its containers are together
	}
	var read bool
	if p.Usage, read = c.read(path); !read {
		whole = false
	}
	return p, whole, ok
}

// read reads one cgroup; none is the empty path.
func (c *Collector) read(path string) (Usage, bool) {
	if path == "" || c.cfg.Cgroups == nil {
		return Usage{}, false
	}
	at := time.Now()
	u, err := c.cfg.Cgroups.Usage(path)
	if err != nil {
		return Usage{}, false // it has just ended, or the runtime knows better
	}
	return usageOf(u, at), true
}

func usageOf(u cgroup.Usage, at time.Time) Usage {
	usage := Usage{At: at, Memory: u.Memory, Processes: u.Processes}
	if u.CPU != nil {
		usage.CPU = &CPU{CPU: *u.CPU}
	}
	return usage
}

// askRuntime fills in what the cgroups did not show of some pods, in two calls
// for all of them.
func (c *Collector) askRuntime(ctx context.Context, result *Pods, lacking []int) error {
	containers, err := c.cfg.Runtime.ContainerStats(ctx)
	if err != nil && !errors.Is(err, cri.ErrUnimplemented) {
		return fmt.Errorf("the runtime does not tell what containers use, and their cgroups are not found: %w", err)
	}
	byID := map[string]*cri.ContainerStats{}
	for i := range containers {
		byID[containers[i].ID] = &containers[i]
	}
	sandboxes, err := c.cfg.Runtime.SandboxStats(ctx)
	if err != nil && !errors.Is(err, cri.ErrUnimplemented) {
		sandboxes = nil // pods are then the sums of their containers
	}
	sandboxByID := map[string]*cri.SandboxStats{}
	for i := range sandboxes {
		sandboxByID[sandboxes[i].ID] = &sandboxes[i]
	}
	for _, i := range lacking {
		pod := &result.Pods[i]
		for j := range pod.Containers {
			one := &pod.Containers[j]
			if told := byID[one.ID]; told != nil && one.CPU == nil && one.Memory == nil {
				one.Usage = toldUsage(told.CPU, told.Memory, nil)
			}
		}
		if told := sandboxByID[pod.SandboxID]; told != nil && pod.CPU == nil && pod.Memory == nil {
			pod.Usage = toldUsage(told.CPU, told.Memory, told.Processes)
		}
	}
	return nil
}

// toldUsage is what the runtime says.
func toldUsage(cpu *cri.CPUStats, memory *cri.MemoryStats, processes *uint64) Usage {
	u := Usage{Processes: processes}
	if memory != nil {
		u.At = memory.At
		u.Memory = &Memory{
			Usage: memory.Usage, InactiveFile: memory.Usage - min(memory.WorkingSet, memory.Usage), RSS: memory.RSS,
			PageFaults: memory.PageFaults, MajorPageFaults: memory.MajorPageFaults,
		}
	}
	if cpu != nil {
		u.At = cpu.At // a rate needs the time of this one
		u.CPU = &CPU{CPU: cgroup.CPU{Total: cpu.Total}}
	}
	return u
}

// sum makes the pod's figures of those of its containers.
func (p *Pod) sum() {
	for i := range p.Containers {
		u := &p.Containers[i].Usage
		if u.At.After(p.At) {
			p.At = u.At
		}
		if u.CPU != nil {
			if p.CPU == nil {
				p.CPU = &CPU{}
			}
			p.CPU.Total += u.CPU.Total
			p.CPU.User += u.CPU.User
			p.CPU.System += u.CPU.System
		}
		if m := u.Memory; m != nil {
			if p.Memory == nil {
				p.Memory = &Memory{}
			}
			p.Memory.Usage += m.Usage
			p.Memory.InactiveFile += m.InactiveFile
			p.Memory.RSS += m.RSS
			p.Memory.Cache += m.Cache
			p.Memory.MappedFile += m.MappedFile
			p.Memory.Swap += m.Swap
			p.Memory.PageFaults += m.PageFaults
			p.Memory.MajorPageFaults += m.MajorPageFaults
		}
		if u.Processes != nil {
			n := *u.Processes
			if p.Processes != nil {
				n += *p.Processes
			}
			p.Processes = &n
		}
	}
}

// measureIO reads what containers did on devices.
func (c *Collector) measureIO(context.Context, map[string][]cgroup.IO) (map[string][]cgroup.IO, error) {
	all := map[string][]cgroup.IO{}
	for _, pod := range c.cfg.Observed().Own {
		path := podPath(pod)
		for i := range pod.Containers {
			if one := &pod.Containers[i]; one.State == cri.StateRunning {
				if place := c.found.find(c.cfg.Cgroups, path, one.ID); place != "" {
					all[one.ID] = c.cfg.Cgroups.IO(place)
				}
			}
		}
	}
	return all, nil
}
