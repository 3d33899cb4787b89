package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
)

// systemdFolder is there while systemd is process 1, as sd_booted(3) has it.
const systemdFolder = "/run/systemd/system"

// openCgroups wires the pods' cgroups to the runtime that makes those of
// containers in them.
func openCgroups(o *options.Cgroups, client *cri.Client, log *slog.Logger) *cgroup.Cgroups {
	settings := cgroup.DetectSettings()
	settings.NoCPUQuota = o.NoCPUQuota
	settings.QuotaPeriod = int64(o.QuotaPeriod / time.Microsecond)
	settings.SingleProcessOOMKill = o.SingleProcessOOMKill
	return cgroup.New(cgroup.Options{
		Root:               o.Root,
		Driver:             func(ctx context.Context) (cgroup.Driver, error) { return cgroupDriver(ctx, o, client, settings.V2) },
		Settings:           settings,
		Allocatable:        cgroup.Allocatable(memoryCapacity(o), o.Reserved...),
		EnforceAllocatable: o.EnforceAllocatable,
		PodPids:            o.PodPids,
		Log:                log,
	})
}

// memoryCapacity is what the machine has, as far as the cgroups above that of
// all pods let it have it: one who runs podstead in a slice of 1 GiB has a node
// of that size.
func memoryCapacity(o *options.Cgroups) v1.ResourceList {
	list := cgroup.Capacity()
	_, ceiling := cgroup.Ceiling(o.Root)
	cgroup.LowerMemory(list, ceiling)
	return list
}

// capacity is what the node has. The file system of the root folder is the
// one that containers' files would fill.
func capacity(o *options.Options) v1.ResourceList {
	list := memoryCapacity(&o.Cgroups)
	cpus := list[v1.ResourceCPU]
	list[v1.ResourcePods] = *resource.NewQuantity(int64(o.Policy.Pods(int(cpus.Value()))), resource.DecimalSI)
	var fs unix.Statfs_t
	if err := unix.Statfs(o.Paths.Root, &fs); err == nil {
		list[v1.ResourceEphemeralStorage] = *resource.NewQuantity(int64(fs.Blocks)*fs.Bsize, resource.BinarySI)
	}
	return list
}

// allocatable is what is left of that for pods: what is not reserved, and would
// not be evicted for at once.
func allocatable(o *options.Options) v1.ResourceList {
	has := capacity(o)
	return cgroup.Allocatable(has, append(slices.Clone(o.Cgroups.Reserved), o.Eviction.Kept(has))...)
}

// cgroupDriver is the runtime's driver: what it tells, unless a flag knows
// better; of one that does not tell, what the config file says, and else what
// is usual, which with systemd and version 2 is systemd.
func cgroupDriver(ctx context.Context, o *options.Cgroups, client *cri.Client, v2 bool) (cgroup.Driver, error) {
	if o.Driver != "" {
		return cgroup.Driver(o.Driver), nil
	}
	told, err := client.CgroupDriver(ctx)
	switch {
	case err != nil:
		return "", err
	case told != "":
		return cgroup.Driver(told), nil
	case o.DriverHint != "":
		return cgroup.Driver(o.DriverHint), nil
	}
	if _, err := os.Stat(systemdFolder); err == nil && v2 {
		return cgroup.Systemd, nil
	}
	return cgroup.Cgroupfs, nil
}
