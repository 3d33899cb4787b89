package main

import (
	"fmt"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/supervisor/pleg"
)

// openCPUs opens the CPU manager of the policy static; it returns nil with the policy none.
func (d *daemon) openCPUs() (*cpus.Manager, error) {
	o := d.opts
	file, boot := cpus.File(o.Paths.Root), cpus.BootID("/proc")
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
		Topology: topology, Options: o.CPUs.Options, Reserved: reserved, File: file, BootID: boot, Write: d.unwritten.Write,
		Running: runningContainers{d.observers.pleg}.list, Update: d.runtime.client.SetCPUs, Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	d.start(m.Run)
	d.log.Info("CPU manager started", "policy", o.CPUs.Policy, "reserved", reserved.String(), "assignable", m.Assignable().String())
	return m, nil
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
