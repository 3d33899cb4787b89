package daemon

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/cgroupvalues"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/cgroup"
	"github.com/podstead/podstead/node/ipam"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/credential"
	"github.com/podstead/podstead/supervisor/dns"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podephemeral"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/rollout"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volume"
)

// createSupervisor creates the supervisor with what it works on. Node services and
// the cluster adapter register with it in their own phases.
func (d *daemon) createSupervisor(context.Context) error {
	o, p, client := d.opts, &d.observers, d.runtime.Client
	records, err := status.OpenRecords(filepath.Join(o.Paths.Root, "records"), d.disk, d.log)
	if err != nil {
		return err
	}
	ephemeral, err := podephemeral.Open(filepath.Join(o.Paths.Root, "ephemeral-containers"), d.disk, d.log)
	if err != nil {
		return err
	}
	rollouts := d.newRollouts()
	d.sources.rollouts = rollouts
	from := supervisor.Sources{Pods: rollouts, Rollouts: rollouts, Objects: d.sources.config.Objects(),
		Ready: d.recordReady, Probes: p.prober, CSI: d.csi}
	from.Faulty = func() bool {
		return slices.ContainsFunc(d.sources.config.Faults(), func(f manifest.Fault) bool { return !f.Warning })
	}
	if d.bound != nil {
		from.ClusterObjects = d.bound
	}
	cgroups := newCgroups(o, client, d.log)
	if cgroups.Settings.MemoryQoS != nil {
		d.protectedMemory = cgroups.Protected
	}
	if err := d.openManagers(); err != nil {
		return err
	}
	if d.managers != nil && d.managers.CPU != nil {
		cgroups.NoQuota = d.managers.CPU.HasExclusive
	}
	mark, _ := wallclock.Now() // without the ID of the boot if it is not known
	backoff := cri.NewBackoff(o.Runtime.RestartCap, mark.Boot)
	d.sup, err = supervisor.New(supervisor.Config{
		Mark:    wallclock.Now,
		Sources: from,
		Runtime: supervisor.Runtime{
			Observer: p.pleg, Syncer: d.newSyncer(backoff, cgroups.Settings), Backoff: backoff, Health: client,
			Classes: o.Policy.RuntimeClasses,
		},
		Store: supervisor.Store{Statuses: p.statuses, Records: records, Ephemeral: ephemeral, Disk: d.disk},
		Paths: supervisor.Paths{Root: o.Paths.Root, PodLogs: o.Paths.PodLogs, ContainerLogs: o.Paths.ContainerLogs},
		Garbage: gc.ContainerPolicy{MinAge: o.Garbage.ContainerMinAge, MaxPerContainer: o.Garbage.MaxPerContainer,
			MaxTotal: max(o.Garbage.MaxContainers, 0)},
		Events:      p.events,
		Metrics:     p.counters,
		Trace:       d.traceSync(),
		Log:         d.log,
		Node:        d.admitNode,
		Allocatable: nodeResources(o).Allocatable(),
		Credentials: d.credentials,
		Resources: func(own *supervisor.OwnResources) []noderesources.Resource {
			return d.nodeResources(own, cgroups)
		},
		Network: supervisor.Network{HostIPs: p.addresses, DNS: d.dnsSettings(), Uptime: wallclock.Uptime},
	})
	if err != nil {
		return err
	}
	if d.managers != nil && d.managers.CPU != nil {
		d.sup.OnObserved(d.managers.CPU.Wake)
	}
	// Before anything is mounted for a pod.
	if err := d.sup.ShareMounts(); err != nil {
		d.log.Warn("Mounts of pods do not propagate; pods that use mountPropagation with an emptyDir or a claim do not start",
			"err", err)
	}
	d.closeLater(closer(func() error { return d.sup.UnshareMounts(d.sharedCSI()) }))
	if reserved := o.Cgroups.ReservedCgroups; len(reserved) > 0 {
		d.start(func(ctx context.Context) error { return cgroups.EnforceReserved(ctx, reserved) })
	}
	d.start(d.sup.Run, func(ctx context.Context) error { return rollouts.Run(ctx, d.sup) })
	d.startNames()
	return nil
}

// dnsSettings returns the settings of DNS in pods.
func (d *daemon) dnsSettings() dns.Settings {
	n := &d.opts.Network
	settings := dns.Settings{ResolvConf: n.ResolvConf, ClusterDNS: n.ClusterDNS, ClusterDomain: n.ClusterDomain}
	if d.podDNS != nil && d.podDNS.Given() {
		settings.Nameserver = d.podDNS
	}
	return settings
}

// newRollouts creates what decides which revisions of static pods are in effect.
func (d *daemon) newRollouts() *rollout.Controller {
	volumes := &volume.Volumes{Root: filepath.Join(d.opts.Paths.Root, "pods")}
	return rollout.New(rollout.Options{
		Pods: d.sources.config, Dir: filepath.Join(d.opts.Paths.Root, "rollouts"), Disk: d.disk,
		RollbackAfter: d.opts.Rollouts.RollbackAfter,
		Started: func(uid types.UID) bool {
			dir, err := volumes.PodDir(uid)
			if err == nil {
				_, err = os.Lstat(dir)
			}
			return err == nil
		},
		Events: d.observers.events, LastEvent: d.observers.events.Last, Ended: d.observers.counters.RolloutEnded,
		Mark: wallclock.Now, Log: d.log,
	})
}

// recordReady records that a pod was Ready with its manifest.
func (d *daemon) recordReady(uid types.UID) {
	d.sources.checkpoint.RecordReady(d.sources.rollouts.DeclaredUID(uid))
}

// newSyncer creates what brings the runtime to the desired state.
func (d *daemon) newSyncer(backoff *cri.Backoff, settings cgroupvalues.Settings) *cri.Syncer {
	o, p, client := d.opts, &d.observers, d.runtime.Client
	d.start(func(context.Context) error { ipam.FreeAfterPowerCut(d.log); return nil })
	return cri.NewSyncer(cri.SyncerConfig{
		Runtime: client, Images: d.imageConfig(), Hooks: podprobes.Hooks{Actions: probe.NewHooks(probe.Config{
			Exec:      podprobes.Exec{Client: client, MaxOutput: podprobes.MaxHookOutput},
			UserAgent: "podstead-lifecycle/" + buildinfo.Version(),
		})},
		Events: p.events, Log: d.log, Backoff: backoff, Instance: d.instance,
		Started: func(kind cri.ContainerKind, failed string) { p.counters.ContainerStarted(string(kind), failed) },
		LogRoot: o.Paths.PodLogs, LogLinks: o.Paths.ContainerLogs, Cgroup: settings,
		Security: cri.Security{SeccompRoot: filepath.Join(o.Paths.Root, "seccomp"), SeccompDefault: o.Policy.SeccompDefault},
	})
}

// imageConfig reports how images are pulled and who may use them.
func (d *daemon) imageConfig() cri.ImageConfig {
	o, counters := d.opts, d.observers.counters
	return cri.ImageConfig{
		Runtime: d.images, ParallelPulls: o.Runtime.ParallelPulls, Policy: o.Cluster.Verification, Records: d.pullRecords,
		Archives: d.archives,
		Ensured: func(e cri.EnsuredImage) {
			counters.ImageEnsured(string(e.Policy), e.Present, e.PullRequired, e.Checked)
		},
	}
}

// nodeCredentials returns the node's own credentials for registries.
func nodeCredentials(o *config.Options) (credential.Node, error) {
	node := credential.Node{Files: credential.DefaultFiles(o.Paths.Root, os.Getenv("HOME"))}
	if o.Runtime.Providers == "" {
		return node, nil
	}
	var err error
	node.Providers, err = credential.ReadProviders(o.Runtime.Providers, o.Runtime.ProvidersBin)
	return node, err
}

// admitNode describes the node to admission.
func admitNode(o *config.Options, name string) admit.Node {
	labels := admit.WellKnownLabels(name)
	maps.Copy(labels, o.Policy.NodeLabels)
	return admit.Node{Name: name, Labels: labels, UnsafeSysctls: o.Policy.UnsafeSysctls,
		Host: admit.FindHost("/proc", "/sys")}
}

// newCgroups creates the manager of the pods' cgroups, for the cgroup driver that
// the runtime uses.
func newCgroups(opts *config.Options, client *cri.Client, log *slog.Logger) *cgroup.Cgroups {
	o, memory := &opts.Cgroups, &opts.Memory
	settings := cgroup.DetectSettings()
	settings.NoCPUQuota = o.NoCPUQuota
	settings.QuotaPeriod = int64(o.QuotaPeriod / time.Microsecond)
	settings.SingleProcessOOMKill = o.SingleProcessOOMKill
	allocatable := cgroup.Allocatable(cgroup.NodeCapacity(o.Root), o.Reserved...)
	if memory.LimitedSwap {
		settings.Swap = nodestatus.ReadHost("/").Swap
	}
	if memory.QoS {
		bytes := allocatable[v1.ResourceMemory]
		settings.MemoryQoS = &cgroupvalues.MemoryQoS{ThrottlingFactor: memory.Throttling, Reserve: memory.Reserve,
			Allocatable: bytes.Value()}
	}
	return cgroup.New(cgroup.Options{
		Root: o.Root,
		Driver: func(ctx context.Context) (cgroup.Driver, error) {
			return driverSettings(o).Choose(ctx, client.CgroupDriver, settings.V2)
		},
		Settings:           settings,
		Allocatable:        allocatable,
		EnforceAllocatable: o.EnforceAllocatable,
		PodPids:            o.PodPids,
		Log:                log,
	})
}

// driverSettings are those of the driver of cgroups.
func driverSettings(o *config.Cgroups) cgroup.DriverSettings {
	return cgroup.DriverSettings{Set: o.Driver, Hint: o.DriverHint}
}

// nodeResources computes what the node has, and what pods can use of it.
func nodeResources(o *config.Options) nodestatus.Resources {
	return nodestatus.Resources{
		CgroupRoot: o.Cgroups.Root, Root: o.Paths.Root, MaxPods: o.Policy.Pods,
		Reserved: o.Cgroups.Reserved, HardEviction: o.Eviction.HardReserved,
	}
}
