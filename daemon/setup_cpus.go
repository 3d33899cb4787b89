package daemon

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/assignments"
	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
	"github.com/podstead/podstead/node/topology"
	"github.com/podstead/podstead/supervisor/noderesources/assigned"
	"github.com/podstead/podstead/supervisor/pleg"
)

// openCPUs opens the CPU manager of the policy static; it returns nil with the policy none.
func (d *daemon) openCPUs() (*cpus.Manager, error) {
	o := d.opts
	file, boot := cpus.File(o.Paths.Root), assignments.BootID("/proc")
	if o.CPUs.Policy == cpus.PolicyNone {
		return nil, cpus.CheckNone(file, boot)
	}
	topology, err := cpus.ReadTopology("/sys")
	if err != nil {
		return nil, err
	}
	reserved, err := cpus.Reserved(topology, o.CPUs.Reserved, o.Cgroups.ReservedCPU())
	if err != nil {
		return nil, fmt.Errorf("cpuManagerPolicy: %s: %w", o.CPUs.Policy, err)
	}
	m, err := cpus.Open(cpus.Config{
		Topology: topology, Options: o.CPUs.Options, Reserved: reserved, File: file, BootID: boot, Disk: d.disk,
		Running: runningContainers{d.observers.pleg}.list, Update: d.runtime.client.SetCPUs, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	d.start(m.Run)
	d.log.Info("CPU manager started", "policy", o.CPUs.Policy, "reserved", reserved.String(), "assignable",
		m.Assignable().String())
	return m, nil
}

// openMemory opens the memory manager of the policy Static; it returns nil with the policy None.
func (d *daemon) openMemory() (*memory.Manager, error) {
	o := d.opts
	file, boot := memory.File(o.Paths.Root), assignments.BootID("/proc")
	if o.MemoryManager.Policy == memory.PolicyNone {
		return nil, memory.CheckNone(file, boot)
	}
	machine, err := memory.ReadNodes("/")
	if err != nil {
		return nil, err
	}
	m, err := memory.Open(memory.Config{
		Machine: machine, Reserved: o.MemoryManager.Reserved, File: file, BootID: boot, Disk: d.disk,
		Requested: d.observers.counters.MemoryRequested, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	d.log.Info("Memory manager started", "policy", o.MemoryManager.Policy, "assignable", m.Assignable().String())
	return m, nil
}

// resourceManagers are the managers that assign the node's resources to containers. It implements
// assigned.Manager.
type resourceManagers struct {
	*topology.Manager
	cpus   *cpus.Manager
	memory *memory.Manager
}

// Fixed reports whether the cpu or the memory of a pod's containers cannot change while they run.
func (r resourceManagers) Fixed(pod *v1.Pod, name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU:
		return r.cpus != nil && r.cpus.Fixed(pod)
	case v1.ResourceMemory:
		return r.memory != nil && r.memory.Fixed(pod)
	}
	return false
}

// openManagers opens the managers that are configured; the result is nil if there are none.
func (d *daemon) openManagers() (assigned.Manager, error) {
	o := &d.opts.Topology
	manager, err := d.openCPUs()
	if err != nil {
		return nil, err
	}
	memory, err := d.openMemory()
	if err != nil {
		return nil, err
	}
	d.cpus, d.memory = manager, memory
	if manager == nil && memory == nil && o.Policy == topology.PolicyNone {
		return nil, nil
	}
	nodes, err := topology.ReadNodes("/sys")
	if err != nil {
		return nil, err
	}
	cfg := topology.Config{Policy: o.Policy, Scope: o.Scope, Options: o.Options, Nodes: nodes, Devices: d.devices,
		Log: d.log}
	if manager != nil {
		cfg.Providers = append(cfg.Providers, manager)
	}
	if memory != nil {
		cfg.Providers = append(cfg.Providers, memory)
	}
	m := topology.New(cfg)
	if o.Policy != topology.PolicyNone {
		d.devices.SetAffinity(func(uid types.UID, container string, nodes []int) bool {
			return topology.NewMask(nodes...)&m.Affinity(uid, container) != 0
		})
	}
	return resourceManagers{m, manager, memory}, nil
}

// runningContainers lists the running containers of this daemon's pods.
type runningContainers struct{ observer *pleg.PLEG }

func (r runningContainers) list() (list []cpus.Container) {
	for _, pod := range r.observer.Observed().Own {
		for i := range pod.Containers {
			if c := &pod.Containers[i]; c.State == cri.StateRunning {
				list = append(list, cpus.Container{Pod: pod.UID, Name: c.Name, ID: c.ID})
			}
		}
	}
	return list
}
