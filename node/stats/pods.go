package stats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

// measurePods measures all running pods.
func (c *Collector) measurePods(ctx context.Context, _ *usage.Pods) (*usage.Pods, error) {
	observed := c.cfg.Observed()
	result := &usage.Pods{At: time.Now()}
	c.cgroupPaths.retain(observed)
	var incomplete []int
	for i := range observed {
		pod, complete, running := c.measurePod(&observed[i])
		if !running {
			continue
		}
		if !complete {
			incomplete = append(incomplete, len(result.Pods))
		}
		result.Pods = append(result.Pods, pod)
	}
	if len(incomplete) > 0 {
		c.reportFault(c.askRuntime(ctx, result, incomplete))
	}
	c.podRates.begin()
	for i := range result.Pods {
		pod := &result.Pods[i]
		for j := range pod.Containers {
			container := &pod.Containers[j]
			if container.CPU == nil && container.Memory == nil {
				result.Missing++
			}
			c.podRates.add(container.ID, container.CPU, container.At, container.CreatedAt)
		}
		if pod.CPU == nil && pod.Memory == nil {
			pod.SumContainers()
		}
		c.podRates.add(string(pod.UID), pod.CPU, pod.At, pod.StartedAt)
	}
	c.podRates.end()
	return result, nil
}

// measurePod reads the cgroups of a pod. complete reports whether all of them
// could be read, running whether the pod runs.
func (c *Collector) measurePod(observed *ObservedPod) (pod usage.Pod, complete, running bool) {
	pod = usage.Pod{UID: observed.UID, Name: observed.Name, Namespace: observed.Namespace}
	if observed.SandboxReady {
		pod.SandboxID, pod.StartedAt = observed.SandboxID, observed.SandboxCreatedAt
		running = true
	}
	path := podCgroup(observed)
	complete = true
	for i := range observed.Containers {
		o := &observed.Containers[i]
		if !o.Running {
			continue
		}
		running = true
		container := usage.Container{Name: o.Name, ID: o.ID, CreatedAt: o.CreatedAt}
		var ok bool
		if container.Usage, ok = c.readCgroup(c.cgroupPaths.find(c.cfg.Cgroups, path, o.ID)); !ok {
			complete = false
		}
		pod.Containers = append(pod.Containers, container)
	}
	if path == "" {
		return pod, complete, running // its usage is the sum of its containers
	}
	var ok bool
	if pod.Usage, ok = c.readCgroup(path); !ok {
		complete = false
	}
	return pod, complete, running
}

// readCgroup reads one cgroup. The empty path stands for no cgroup.
func (c *Collector) readCgroup(path string) (usage.Usage, bool) {
	if path == "" || c.cfg.Cgroups == nil {
		return usage.Usage{}, false
	}
	at := time.Now()
	u, err := c.cfg.Cgroups.Usage(path)
	if err != nil {
		return usage.Usage{}, false // the cgroup has just been removed, or only the runtime can read it
	}
	u.At = at
	return u, true
}

// askRuntime adds what the cgroups of the incomplete pods did not show, in two
// calls for all of them.
func (c *Collector) askRuntime(ctx context.Context, result *usage.Pods, incomplete []int) error {
	containers, err := c.cfg.Runtime.ContainerUsage(ctx)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("failed to get container stats from the runtime for containers without a known cgroup: %w", err)
	}
	containerByID := make(map[string]*usage.RuntimeContainer, len(containers))
	for i := range containers {
		containerByID[containers[i].ID] = &containers[i]
	}
	sandboxes, err := c.cfg.Runtime.SandboxUsage(ctx)
	if err != nil {
		sandboxes = nil // the pods are then the sums of their containers
	}
	sandboxByID := make(map[string]*usage.RuntimeSandbox, len(sandboxes))
	for i := range sandboxes {
		sandboxByID[sandboxes[i].ID] = &sandboxes[i]
	}
	for _, i := range incomplete {
		pod := &result.Pods[i]
		for j := range pod.Containers {
			container := &pod.Containers[j]
			if u := containerByID[container.ID]; u != nil && container.CPU == nil && container.Memory == nil {
				container.Usage = u.Usage
			}
		}
		if u := sandboxByID[pod.SandboxID]; u != nil && pod.CPU == nil && pod.Memory == nil {
			pod.Usage = u.Usage
		}
	}
	return nil
}
