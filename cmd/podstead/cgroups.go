package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/nodestatus"
)

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
		Allocatable:        cgroup.Allocatable(cgroup.NodeCapacity(o.Root), o.Reserved...),
		EnforceAllocatable: o.EnforceAllocatable,
		PodPids:            o.PodPids,
		Log:                log,
	})
}

// nodeResources computes what the node has, and what pods can use of it.
func nodeResources(o *options.Options) nodestatus.Resources {
	return nodestatus.Resources{
		CgroupRoot: o.Cgroups.Root, Root: o.Paths.Root, MaxPods: o.Policy.Pods,
		Reserved: o.Cgroups.Reserved, HardEviction: o.Eviction.Kept,
	}
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
	return cgroup.DefaultDriver(v2), nil
}
