package daemon

import (
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/resourcemanagers"
)

// openManagers opens the managers of exclusive CPUs and memory; d.managers is nil if none is configured.
func (d *daemon) openManagers() (err error) {
	o := d.opts
	d.managers, err = resourcemanagers.Open(resourcemanagers.Config{
		Host: "/", State: o.Paths.Root, Disk: d.disk, Log: d.log,
		CPUs: resourcemanagers.CPUs{
			Policy: o.CPUs.Policy, Options: o.CPUs.Options, Set: o.CPUs.Reserved, Reserved: o.Cgroups.ReservedCPU(),
			Running: d.runningContainers, Update: d.runtime.Client.SetCPUs,
		},
		Memory: resourcemanagers.Memory{
			Policy: o.MemoryManager.Policy, Reserved: o.MemoryManager.Reserved, Requested: d.observers.counters.MemoryRequested,
		},
		Topology: resourcemanagers.Topology{
			Policy: o.Topology.Policy, Scope: o.Topology.Scope, Options: o.Topology.Options, Devices: d.devices,
		},
	})
	if err == nil && d.managers != nil && d.managers.CPU != nil {
		d.start(d.managers.CPU.Run)
	}
	return err
}

// runningContainers lists the running containers of this daemon's pods.
func (d *daemon) runningContainers() (list []cpus.Container) {
	for _, pod := range d.observers.pleg.Observed().Own {
		for i := range pod.Containers {
			if c := &pod.Containers[i]; c.State == cri.StateRunning {
				list = append(list, cpus.Container{Pod: pod.UID, Name: c.Name, ID: c.ID})
			}
		}
	}
	return list
}
