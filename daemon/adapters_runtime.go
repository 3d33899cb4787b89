package daemon

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/node/stats"
)

// observedPods shows node/stats what the runtime has. It makes two lists, which
// the measurement discards.
func observedPods(o *cri.Observed) []stats.ObservedPod {
	count := 0
	for _, pod := range o.Own {
		count += len(pod.Containers)
	}
	pods, containers := make([]stats.ObservedPod, len(o.Own)), make([]stats.ObservedContainer, 0, count)
	for i, pod := range o.Own {
		p := &pods[i]
		p.UID, p.Name, p.Namespace = pod.UID, pod.Name, pod.Namespace
		if len(pod.Sandboxes) > 0 {
			s := &pod.Sandboxes[0]
			p.SandboxID, p.SandboxReady, p.SandboxCreatedAt, p.CgroupParent = s.ID, s.Ready, s.CreatedAt, s.CgroupParent()
		}
		first := len(containers)
		for j := range pod.Containers {
			c := &pod.Containers[j]
			containers = append(containers, stats.ObservedContainer{Name: c.Name, ID: c.ID, CreatedAt: c.CreatedAt, Running: c.State == cri.StateRunning})
		}
		p.Containers = containers[first:len(containers):len(containers)]
	}
	return pods
}

// runtimeStats is the client as node/stats asks it.
type runtimeStats struct{ client *cri.Client }

// ContainerUsage implements stats.Runtime.
func (r runtimeStats) ContainerUsage(ctx context.Context) ([]stats.ContainerUsage, error) {
	list, err := r.client.ContainerStats(ctx)
	if err != nil {
		return nil, unlessUnimplemented(err)
	}
	containers := make([]stats.ContainerUsage, len(list))
	for i := range list {
		c := &list[i]
		containers[i] = stats.ContainerUsage{ID: c.ID, Usage: runtimeUsage(c.CPU, c.Memory, nil), Writable: (*stats.FilesystemUsage)(c.Writable)}
	}
	return containers, nil
}

// SandboxUsage implements stats.Runtime.
func (r runtimeStats) SandboxUsage(ctx context.Context) ([]stats.SandboxUsage, error) {
	list, err := r.client.SandboxStats(ctx)
	if err != nil {
		return nil, unlessUnimplemented(err)
	}
	sandboxes := make([]stats.SandboxUsage, len(list))
	for i := range list {
		s := &list[i]
		sandboxes[i] = stats.SandboxUsage{ID: s.ID, Usage: runtimeUsage(s.CPU, s.Memory, s.Processes)}
		for _, f := range s.Interfaces {
			sandboxes[i].Interfaces = append(sandboxes[i].Interfaces, usage.Interface{
				Name: f.Name, RxBytes: f.RxBytes, RxErrors: f.RxErrors, TxBytes: f.TxBytes, TxErrors: f.TxErrors,
			})
		}
	}
	return sandboxes, nil
}

// ImageUsage implements stats.Runtime.
func (r runtimeStats) ImageUsage(ctx context.Context) (images, containers []stats.FilesystemUsage, err error) {
	i, c, err := r.client.ImageStats(ctx)
	return filesystems(i), filesystems(c), err
}

func filesystems(list []cri.FilesystemStats) []stats.FilesystemUsage {
	out := make([]stats.FilesystemUsage, len(list))
	for i := range list {
		out[i] = stats.FilesystemUsage(list[i])
	}
	return out
}

func unlessUnimplemented(err error) error {
	if errors.Is(err, cri.ErrUnimplemented) {
		return nil
	}
	return err
}

// runtimeUsage joins what the runtime measured. A rate needs the time of the CPU
// measurement.
func runtimeUsage(cpu *cri.CPUStats, memory *cri.MemoryStats, processes *uint64) usage.Usage {
	u := usage.Usage{Processes: processes}
	if memory != nil {
		u.At = memory.At
		u.Memory = &usage.Memory{
			Usage: memory.Usage, InactiveFile: memory.Usage - min(memory.WorkingSet, memory.Usage), RSS: memory.RSS,
			PageFaults: memory.PageFaults, MajorPageFaults: memory.MajorPageFaults,
		}
	}
	if cpu != nil {
		u.At = cpu.At
		u.CPU = &usage.CPU{Total: cpu.Total}
	}
	return u
}

// runtimeInventory is the client as node/nodestatus asks it.
type runtimeInventory struct{ client *cri.Client }

// Features implements nodestatus.Runtime.
func (r runtimeInventory) Features(ctx context.Context) (f nodestatus.Features, err error) {
	can, err := r.client.Capabilities(ctx)
	if err != nil {
		return f, err
	}
	if can.Features != nil {
		policy := can.Features.GetSupplementalGroupsPolicy()
		f.SupplementalGroupsPolicy = &policy
	}
	for name, h := range can.Handlers {
		readOnly, users := h.GetRecursiveReadOnlyMounts(), h.GetUserNamespaces()
		f.Handlers = append(f.Handlers, v1.NodeRuntimeHandler{
			Name: name, Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: &readOnly, UserNamespaces: &users},
		})
	}
	return f, nil
}

// Images implements nodestatus.Runtime.
func (r runtimeInventory) Images(ctx context.Context) ([]nodestatus.Image, error) {
	stored, err := r.client.StoredImages(ctx)
	if err != nil {
		return nil, err
	}
	images := make([]nodestatus.Image, len(stored))
	for i := range stored {
		images[i] = nodestatus.Image{Tags: stored[i].Tags, Digests: stored[i].Digests, Size: stored[i].Size}
	}
	return images, nil
}
