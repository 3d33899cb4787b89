package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/cmd/podstead/cli"
	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/cmd/podstead/preflight"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/addresses"
	"github.com/podstead/podstead/node/evict"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/credential"
	"github.com/podstead/podstead/supervisor/dns"
	"github.com/podstead/podstead/supervisor/event"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/status"
)

func runCommand() *cobra.Command {
	var o options.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the pods of a folder or a URL and keep them running",
		Long: `Run the pods of a folder or a URL and keep them running.

Stopping this program leaves the pods running; the next start takes them over.
To end a pod, remove its manifest.`,
		Example: `  podstead run
  podstead run --pod-manifest-path ./pods --container-runtime-endpoint unix:///run/containerd/containerd.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			notices, err := o.Complete(cmd.Flags())
			if err != nil {
				return err
			}
			log := newLog(o.Log)
			for _, n := range notices {
				log.Warn(n)
			}
			return run(cmd.Context(), &o, log)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// run wires the rooms in the order in which data flows through them, and runs
// them until ctx ends. Pods are left running.
func run(ctx context.Context, o *options.Options, log *slog.Logger) error {
	lock, err := preflight.LockRoot(o.Paths.Root)
	if err != nil {
		return err
	}
	defer lock.Close()
	cgroupLock, err := preflight.LockCgroupRoot(o.Cgroups.Root)
	if err != nil {
		return err
	}
	defer cgroupLock.Close()
	protectFromOOM(log)
	node, warning, err := manifest.ResolveNodeName(o.Paths.Root, o.Node, os.Hostname)
	if err != nil {
		return err
	}
	if warning != "" {
		log.Warn(warning)
	}
	logins, err := openCredentials(o)
	if err != nil {
		return err
	}
	tameMemory()
	log.Info("podstead starts", append([]any{"version", versionText(), "node", node, "root", o.Paths.Root}, origins(o.Manifests)...)...)

	counters := metrics.NewCounters()
	rt, err := openRuntime(ctx, o, cri.Instance(machineID(node, log), o.Paths.Root), counters, log)
	if err != nil {
		return err
	}
	defer rt.client.Close()

	src, err := openSources(o, node, log)
	if err != nil {
		return err
	}
	observer := pleg.New(pleg.Config{Runtime: rt.client, Log: log, Relisted: counters.Relisted})
	events := event.New(event.Config{Node: node, File: filepath.Join(o.Paths.Root, "events", "journal.jsonl"), Log: log})
	// The kubelet's first event: after a restart it tells when.
	events.Event(nil, v1.EventTypeNormal, "Starting", "Starting podstead.")
	statuses := status.NewStore()
	addresses := addresses.New(addresses.Config{Fixed: o.Network.NodeIPs, IPv6First: o.Network.IPv6First, Log: log})
	prober := probe.New(probe.Config{Exec: containerExec{rt.client}, Events: events, UserAgent: "podstead-probe/" + versionNumber()})
	p := parts{
		observer: observer, prober: prober, events: events, statuses: statuses, addresses: addresses, node: admittingNode(o, node), logins: logins,
		counters: counters,
	}
	var joined *cluster.Adapter
	var bound *cluster.Objects
	if o.Cluster.Kubeconfig != "" {
		bound = cluster.NewObjects(podinputs.References)
		p.node.Taints = func() []v1.Taint { return joined.Taints() }
	}
	p.stats = newStats(o, rt, p, log)
	p.logs = newLogs(o, rt, p, log)
	// What manifests name is known to the supervisor, which pulls it.
	var sup *supervisor.Supervisor
	p.images = newImages(o, rt, p, func() *supervisor.Supervisor { return sup }, log)
	p.eviction = newEviction(o, rt, p, func() *supervisor.Supervisor { return sup }, log)
	sup, err = newSupervisor(o, src, rt, bound, p, log)
	if err != nil {
		return err
	}
	// Before anything is mounted for a pod.
	if err := sup.ShareMounts(); err != nil {
		log.Warn("mounts of pods will not propagate; mountPropagation of emptyDir and claims is refused", "error", err)
	}
	var inventory *nodestatus.Inventory
	if o.Cluster.Kubeconfig != "" {
		inventory = nodestatus.NewInventory(runtimeInventory{rt.client}, o.Cluster.Images, log)
	}
	describe := nodeOf(o, node, sup, p, inventory)
	kube, err := newKubeAPI(o, describe, sup, src.config, p)
	if err != nil {
		return err
	}
	joined, err = newCluster(o, describe, sup, src, bound, p, log)
	if err != nil {
		return err
	}
	running := append(src.run, addresses.Run, events.Run, observer.Run, prober.Run, p.logs.Run, p.images.Run, p.eviction.Run, p.eviction.host.Run, sup.Run, kube.Run, newOOMWatcher(p, sup, log).Run)
	if joined != nil {
		running = append(running, joined.Run, inventory.Run)
	}

	figures := statsView{nodeName: node, labels: p.node.Labels, collector: p.stats, pods: sup, diskAge: o.Stats.DiskAge}
	view := manifestView{config: src.config, pods: sup, opts: o.Manifests, server: o.Cluster.Kubeconfig}
	api := httpapi.New(
		httpapi.Config{
			Socket: o.API.Socket, HealthAddress: o.API.HealthAddress, ReadOnlyAddress: o.Remote.ReadOnlyAddress,
			Remote: remoteOf(o, node, addresses, joined), Log: log, OnRequest: served(counters),
		},
		httpapi.Sources{
			Pods: syncedPods{sup}, Manifests: view, Objects: view, Health: sup, Restarter: sup,
			Events: events, Statuses: statuses, ManifestName: manifest.BaseName, Kube: kube, Images: newImageView(rt, p.images, o.Paths.Root, sup),
			Streams: containerStreams{client: rt.client, observer: observer}, StreamIdle: o.API.StreamIdle,
			Stats: figures, Usage: figures, Metrics: newMetrics(node, src, sup, p, log),
			Kubelet: kubeletView(o, rt.client, observer), Cluster: memberOf(joined),
			Volumes:      volumeView{objects: src.config.Objects(), pods: sup},
			LogDirectory: func(p *v1.Pod) string { return cri.LogDirectory(o.Paths.PodLogs, p.Namespace, p.Name, p.UID) },
		},
	)
	listeners, err := api.Listen(ctx)
	if err != nil {
		return err
	}

	// What was asked to end by a signal is no failure; --runonce ends the
	// rest through the same context.
	guard, asked := newGuard(o, sup, log), ctx
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	g, ctx := errgroup.WithContext(ctx)
	if rt.own != nil {
		g.Go(func() error { return rt.own.Run(ctx) })
	}
	for _, part := range running {
		g.Go(func() error {
			if err := part(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	g.Go(func() error { return api.Serve(ctx, listeners) })
	if guard != nil {
		g.Go(func() error { return guard.Run(ctx) })
	}
	g.Go(func() error {
		defer end()
		untilDone(ctx, asked, guard, log)
		return nil
	})
	g.Go(func() error { return watchdog(ctx, sup.SyncLoopHealthy, log) })
	g.Go(func() error {
		<-ctx.Done()
		notify(daemon.SdNotifyStopping, log)
		return nil
	})
	if o.RunOnce {
		g.Go(func() error {
			defer end()
			return runOnce(ctx, sup, src.config.Faults)
		})
	}
	notify(daemon.SdNotifyReady, log)
	err = g.Wait()
	if sup.ShuttingDown() {
		log.Info("podstead ends; its pods have ended, and return after the boot")
	} else {
		log.Info("podstead ends; pods go on")
	}
	return err
}

// origins are where manifests come from, for the log.
func origins(m options.Manifests) (attrs []any) {
	if m.Path != "" {
		attrs = append(attrs, "manifests", m.Path)
	}
	if m.URL != "" {
		attrs = append(attrs, "url", m.RedactedURL())
	}
	return attrs
}

// runOnce waits until each pod runs or has failed and prints a line for each,
// and for each manifest that is held back.
func runOnce(ctx context.Context, sup *supervisor.Supervisor, faults func() []manifest.Fault) error {
	failed := false
	err := sup.WaitStarted(ctx, func(pod *v1.Pod, err error) {
		name := pod.Namespace + "/" + manifest.BaseName(pod)
		if err != nil {
			failed = true
			fmt.Printf("%s: failed: %v\n", name, err)
			return
		}
		fmt.Printf("%s: %s\n", name, pod.Status.Phase)
	})
	if err != nil && !errors.Is(err, supervisor.ErrNotStarted) {
		return err
	}
	for _, f := range faults() {
		if !f.Warning {
			failed = true
			fmt.Printf("fault: %v\n", f)
		}
	}
	if failed {
		return &cli.ExitError{Code: 1}
	}
	return nil
}

// machineID is that of this machine. Without one the node's name stands in:
// pods are still told apart from those of other root folders.
func machineID(node string, log *slog.Logger) string {
	id, ok := options.MachineID("/etc/machine-id", "/var/lib/dbus/machine-id")
	if !ok {
		log.Warn("this machine has no id; the node name is used to mark pods as podstead's; make one with systemd-machine-id-setup before pods run")
		return node
	}
	return id
}

// sources are the wired manifests room.
type sources struct {
	config     *manifest.PodConfig
	checkpoint *manifest.Checkpoint
	run        []func(context.Context) error
}

func openSources(o *options.Options, node string, log *slog.Logger) (*sources, error) {
	checkpoint, err := manifest.OpenCheckpoint(filepath.Join(o.Paths.Root, "checkpoint", "manifests.json"), log)
	if err != nil {
		return nil, err
	}
	loader := manifest.NewLoader(node, o.Manifests.Mode)
	var names []manifest.Source
	if o.Manifests.Path != "" {
		names = append(names, manifest.SourceFile)
	}
	if o.Manifests.URL != "" {
		names = append(names, manifest.SourceHTTP)
	}
	if o.Cluster.Kubeconfig != "" {
		names = append(names, manifest.SourceAPI)
	}
	config := manifest.NewPodConfig(manifest.PodConfigOptions{Sources: names, Checkpoint: checkpoint, Log: log})
	s := &sources{config: config, checkpoint: checkpoint, run: []func(context.Context) error{checkpoint.Run, config.Run}}
	if o.Manifests.Path != "" {
		s.run = append(s.run, manifest.NewFileSource(manifest.FileSourceOptions{
			Path: o.Manifests.Path, Node: node, Rescan: o.Manifests.FileCheck,
			Loader: loader, Checkpoint: checkpoint, Deliver: config, Log: log,
		}).Run)
	}
	if o.Manifests.URL != "" {
		u, err := manifest.NewURLSource(manifest.URLSourceOptions{
			URL: o.Manifests.URL, Header: o.Manifests.Header, CAFile: o.Manifests.CAFile, Node: node, Interval: o.Manifests.HTTPCheck,
			Loader: loader, Checkpoint: checkpoint, Deliver: config,
		})
		if err != nil {
			return nil, err
		}
		s.run = append(s.run, u.Run)
	}
	return s, nil
}

// parts are what the supervisor works with, or tells, and others use too.
type parts struct {
	observer  *pleg.PLEG
	prober    *probe.Prober
	events    *event.Recorder
	statuses  *status.Store
	addresses *addresses.Source
	node      admit.Node
	stats     *stats.Collector
	counters  *metrics.Counters
	logs      *gc.Logs
	images    *gc.Images
	eviction  *eviction
	logins    credential.Node
}

func newSupervisor(o *options.Options, src *sources, rt *openedRuntime, bound *cluster.Objects, p parts, log *slog.Logger) (*supervisor.Supervisor, error) {
	records, err := status.OpenRecords(filepath.Join(o.Paths.Root, "records"), log)
	if err != nil {
		return nil, err
	}
	cgroups := openCgroups(&o.Cgroups, rt.client, log)
	backoff := cri.NewBackoff(o.Runtime.RestartCap)
	syncer := cri.NewSyncer(cri.SyncerConfig{
		Runtime: rt.client, Images: cri.ObservedPulls(rt.client, p.images.Pulled), Hooks: lifecycleHooks{probe.NewHooks(probe.Config{
			Exec: containerExec{rt.client}, UserAgent: "podstead-lifecycle/" + versionNumber(),
		})},
		Events: p.events, Log: log, Backoff: backoff, Instance: rt.instance,
		Started:       func(kind cri.ContainerKind, failed string) { p.counters.ContainerStarted(string(kind), failed) },
		ParallelPulls: o.Runtime.ParallelPulls,
		LogRoot:       o.Paths.PodLogs, LogLinks: o.Paths.ContainerLogs, Cgroup: cgroups.Settings,
		Security: cri.Security{SeccompRoot: filepath.Join(o.Paths.Root, "seccomp"), SeccompDefault: o.Policy.SeccompDefault},
	})
	from := supervisor.Sources{Pods: src.config, Objects: src.config.Objects(), Ready: src.checkpoint.RecordReady, Probes: p.prober}
	if bound != nil {
		from.Bound = bound
	}
	return supervisor.New(supervisor.Config{
		Mark:            wallclock.Now,
		Sources:         from,
		Runtime:         supervisor.Runtime{Observer: p.observer, Syncer: syncer, Backoff: backoff, Health: rt.client, Cgroups: cgroups, Classes: o.Policy.RuntimeClasses},
		Store:           supervisor.Store{Statuses: p.statuses, Records: records},
		Paths:           supervisor.Paths{Root: o.Paths.Root, PodLogs: o.Paths.PodLogs, ContainerLogs: o.Paths.ContainerLogs},
		Garbage:         containerPolicy(o.Garbage),
		Observed:        []func(){p.logs.Wake, p.images.Wake},
		Gates:           []supervisor.Gate{p.eviction.gate},
		RestartPolicies: map[string]supervisor.RestartPolicy{evict.ReasonEvicted: p.eviction.mayReturn},
		Events:          p.events,
		Metrics:         p.counters,
		Log:             log,
		Node:            p.node,
		Allocatable:     nodeResources(o).Allocatable(),
		Credentials:     p.logins,
		Network: supervisor.Network{HostIPs: p.addresses, DNS: dns.Settings{
			ResolvConf: o.Network.ResolvConf, ClusterDNS: o.Network.ClusterDNS, ClusterDomain: o.Network.ClusterDomain,
		}},
	})
}

// openCredentials are the node's credentials for registries.
func openCredentials(o *options.Options) (credential.Node, error) {
	node := credential.Node{Files: credential.UsualFiles(o.Paths.Root, os.Getenv("HOME"))}
	if o.Runtime.Providers == "" {
		return node, nil
	}
	var err error
	node.Providers, err = credential.ReadProviders(o.Runtime.Providers, o.Runtime.ProvidersBin)
	return node, err
}

// admittingNode is what pods are held against.
func admittingNode(o *options.Options, name string) admit.Node {
	labels := admit.WellKnownLabels(name)
	maps.Copy(labels, o.Policy.NodeLabels)
	return admit.Node{Name: name, Labels: labels, UnsafeSysctls: o.Policy.UnsafeSysctls, Host: admit.FindHost("/proc", "/sys")}
}
