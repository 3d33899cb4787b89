package resourcemanagers

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/assignments"
	"github.com/podstead/podstead/node/cpus"
	"github.com/podstead/podstead/node/memory"
	"github.com/podstead/podstead/node/topology"
)

// Config configures the managers.
type Config struct {
	// Host is the root of the host's file system, State the directory of the state files on Disk.
	Host, State string
	Disk        statefile.Disk
	CPUs        CPUs
	Memory      Memory
	Topology    Topology
	Log         *slog.Logger
}

// CPUs configures the CPU manager.
type CPUs struct {
	Policy  string
	Options cpus.Options
	// Set and Reserved are those of the function cpus.Reserved.
	Set      cpus.Set
	Reserved int64
	// Running and Update are those of cpus.Config.
	Running func() []cpus.Container
	Update  func(ctx context.Context, id, cpus string) error
}

// Memory configures the memory manager.
type Memory struct {
	Policy   string
	Reserved memory.Nodes
	// Requested is that of memory.Config.
	Requested func(err error)
}

// Topology configures the topology manager.
type Topology struct {
	Policy, Scope string
	Options       topology.Options
	Devices       Devices
}

// Devices are the node's devices. Implemented by devices.Manager.
type Devices interface {
	topology.Devices
	// SetAffinity sets what reports whether a device on some NUMA nodes is near a container.
	SetAffinity(near func(uid types.UID, container string, nodes []int) bool)
}

// Managers are those of a node. What a container has that no manager assigned is left to the kernel.
type Managers struct {
	*topology.Manager
	// CPU is nil with the policy none, Memory with the policy None.
	CPU    *cpus.Manager
	Memory *memory.Manager
}

// Open opens the managers that are configured; the result is nil if there are none. It returns an error if pods
// run with what a manager assigned them that is not configured any more.
func Open(cfg Config) (*Managers, error) {
	m, boot := &Managers{}, assignments.BootID(filepath.Join(cfg.Host, "proc"))
	if err := m.openCPU(&cfg, boot); err != nil {
		return nil, err
	}
	if err := m.openMemory(&cfg, boot); err != nil {
		return nil, err
	}
	o := &cfg.Topology
	if m.CPU == nil && m.Memory == nil && o.Policy == topology.PolicyNone {
		return nil, nil
	}
	nodes, err := topology.ReadNodes(filepath.Join(cfg.Host, "sys"))
	if err != nil {
		return nil, err
	}
	aligned := topology.Config{Policy: o.Policy, Scope: o.Scope, Options: o.Options, Nodes: nodes, Log: cfg.Log}
	if o.Devices != nil {
		aligned.Devices = o.Devices
	}
	if m.CPU != nil {
		aligned.Providers = append(aligned.Providers, m.CPU)
	}
	if m.Memory != nil {
		aligned.Providers = append(aligned.Providers, m.Memory)
	}
	m.Manager = topology.New(aligned)
	if o.Policy != topology.PolicyNone && o.Devices != nil {
		o.Devices.SetAffinity(func(uid types.UID, container string, nodes []int) bool {
			return topology.NewMask(nodes...)&m.Affinity(uid, container) != 0
		})
	}
	return m, nil
}

func (m *Managers) openCPU(cfg *Config, boot string) error {
	o, file := &cfg.CPUs, cpus.File(cfg.State)
	if o.Policy == cpus.PolicyNone {
		return cpus.CheckNone(file, boot)
	}
	read, err := cpus.ReadTopology(filepath.Join(cfg.Host, "sys"))
	if err != nil {
		return err
	}
	reserved, err := cpus.Reserved(read, o.Set, o.Reserved)
	if err != nil {
		return fmt.Errorf("cpuManagerPolicy: %s: %w", o.Policy, err)
	}
	m.CPU, err = cpus.Open(cpus.Config{
		Topology: read, Options: o.Options, Reserved: reserved, File: file, BootID: boot, Disk: cfg.Disk,
		Running: o.Running, Update: o.Update, Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	cfg.Log.Info("CPU manager started", "policy", o.Policy, "reserved", reserved.String(), "assignable",
		m.CPU.Assignable().String())
	return nil
}

func (m *Managers) openMemory(cfg *Config, boot string) error {
	o, file := &cfg.Memory, memory.File(cfg.State)
	if o.Policy == memory.PolicyNone {
		return memory.CheckNone(file, boot)
	}
	machine, err := memory.ReadNodes(cfg.Host)
	if err != nil {
		return err
	}
	m.Memory, err = memory.Open(memory.Config{
		Machine: machine, Reserved: o.Reserved, File: file, BootID: boot, Disk: cfg.Disk, Requested: o.Requested,
		Log: cfg.Log,
	})
	if err != nil {
		return err
	}
	cfg.Log.Info("Memory manager started", "policy", o.Policy, "assignable", m.Memory.Assignable().String())
	return nil
}

// Fixed reports whether the cpu or the memory of a pod's containers cannot change while they run.
func (m *Managers) Fixed(pod *v1.Pod, name v1.ResourceName) bool {
	switch name {
	case v1.ResourceCPU:
		return m.CPU != nil && m.CPU.Fixed(pod)
	case v1.ResourceMemory:
		return m.Memory != nil && m.Memory.Fixed(pod)
	}
	return false
}

// CPUs returns the CPUs of a container as the kernel's list, empty for all, and whether they are its own.
func (m *Managers) CPUs(uid types.UID, container string) (list string, exclusive bool) {
	if m.CPU == nil {
		return "", false
	}
	return m.CPU.CPUs(uid, container)
}

// NUMANodes returns the NUMA nodes from which a container has its memory as the kernel's list, empty for all.
func (m *Managers) NUMANodes(uid types.UID, container string) string {
	if m.Memory == nil {
		return ""
	}
	return m.Memory.NUMANodes(uid, container)
}

// Created records the CPUs that a container was created with.
func (m *Managers) Created(id, list string) {
	if m.CPU != nil {
		m.CPU.Created(id, list)
	}
}
