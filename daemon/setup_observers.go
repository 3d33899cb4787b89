package daemon

import (
	"context"
	"iter"
	"path/filepath"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri/imagearchives"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/node/addresses"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/node/oom"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/event"
	"github.com/podstead/podstead/supervisor/pleg"
	"github.com/podstead/podstead/supervisor/podprobes"
	"github.com/podstead/podstead/supervisor/status"
)

// observers watch the runtime, the pods and the host, or record what happens to
// them. They change nothing that runs.
type observers struct {
	counters  *metrics.Counters
	oomKills  *oom.Watcher
	pleg      *pleg.PLEG
	prober    *probe.Prober
	events    *event.Recorder
	statuses  *status.Store
	addresses *addresses.Source
	stats     *stats.Collector
}

// newObservers creates those that the connection to the runtime already needs.
func newObservers() observers { return observers{counters: metrics.NewCounters()} }

// createObservers creates the rest.
func (d *daemon) createObservers(context.Context) error {
	client, p := d.runtime.Client, &d.observers
	p.oomKills = oom.New(oom.Config{Log: d.log})
	// Before the first observation of containers, whose reasons depend on it.
	p.oomKills.ReadHistory()
	p.pleg = pleg.New(pleg.Config{Runtime: client, OOMKills: p.oomKills, Log: d.log, Relisted: p.counters.Relisted})
	p.events = event.New(event.Config{Node: d.nodeName, File: filepath.Join(d.opts.Paths.Root, "events", "journal.jsonl"),
		Disk: d.disk, Log: d.log})
	// The kubelet's first event. It shows when the daemon was restarted.
	p.events.Event(nil, v1.EventTypeNormal, "Starting", "Starting podstead.")
	if conflict := d.runtime.Kubelet; conflict != nil {
		p.events.Event(nil, v1.EventTypeWarning, "KubeletConflict", conflict.Error())
	}
	d.archives = imagearchives.New(imagearchives.Config{
		Dir: d.opts.Runtime.Archives, File: filepath.Join(d.opts.Paths.Root, "image-archives.json"), Disk: d.disk,
		Events: p.events, Log: d.log,
	})
	p.statuses = status.NewStore()
	p.addresses = addresses.New(addresses.Config{Fixed: d.opts.Network.NodeIPs, IPv6First: d.opts.Network.IPv6First,
		Log: d.log})
	p.prober = probe.New(probe.Config{Exec: podprobes.Exec{Client: client, MaxOutput: podprobes.MaxProbeOutput},
		Events: p.events, UserAgent: "podstead-probe/" + buildinfo.Version()})
	d.csi = d.newCSI()
	p.stats = newStats(d.opts, client, p.pleg, d.csi, d.log)
	d.start(func(ctx context.Context) error {
		return d.unwritten.Run(ctx, nodestatus.ReportStorage(p.events, p.statuses.Touch))
	})
	d.start(p.addresses.Run, p.events.Run, p.pleg.Run, p.prober.Run)
	return nil
}

// ownersOf returns what lists the containers of podstead's pods as they were last observed.
func ownersOf(observer *pleg.PLEG) func() iter.Seq[oom.Owner] {
	return func() iter.Seq[oom.Owner] {
		return func(yield func(oom.Owner) bool) {
			for _, pod := range observer.Observed().Own {
				for i := range pod.Containers {
					c := &pod.Containers[i]
					if !yield(oom.Owner{Pod: pod.FullName(), PodUID: string(pod.UID), Name: c.Name, ID: c.ID}) {
						return
					}
				}
			}
		}
	}
}
