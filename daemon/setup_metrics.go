package daemon

import (
	"context"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/nodestatus"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/volumeview"
)

// newMetrics creates the endpoints that Prometheus scrapes.
func (d *daemon) newMetrics(volumes *volumeview.View) httpapi.Metrics {
	p := &d.observers
	var podDNSReady func() bool // nil without a name server for pods
	if d.podDNS != nil && d.podDNS.Given() {
		podDNSReady = d.podDNS.Ready
	}
	var claimsInUse func() (map[string]int, int)
	if d.claims != nil {
		claimsInUse = d.claims.InUse
	}
	e := metrics.New(p.counters, metrics.Sources{
		NodeName: d.nodeName, Version: buildinfo.Version(),
		Pods:       func() []metrics.PodState { return podStates(p.pleg.Observed()) },
		LastRelist: func() time.Time { return p.pleg.Stats().LastRelist },
		Workers:    func() []metrics.Worker { return workersOf(d.sup) },
		Statuses:   p.statuses.List,
		Manifests:  func() []metrics.Manifests { return manifestsOf(d.sources.config.Snapshot()) },
		Claims:     func() []usage.Claim { return volumes.InUse(context.Background()) },
		Probes:     func() []metrics.ProbeCount { return probeCounts(p.prober.Counts()) },
		Specs:      d.sup.Pods,
		Stats:      p.stats, Machine: machine, SandboxImage: d.runtime.Client.SandboxImage, Log: d.log,
		Unwritten: func() int { return len(d.unwritten.List()) }, MemoryQoS: d.protectedMemory,
		RolledBack: d.sources.rollouts.RolledBack, PodDNSReady: podDNSReady, ClaimsInUse: claimsInUse,
	})
	return httpapi.Metrics{Kubelet: e.Kubelet(), Resource: e.Resource(), Probes: e.Probes(), Cadvisor: e.Cadvisor()}
}

func workersOf(sup *supervisor.Supervisor) (list []metrics.Worker) {
	for kind, count := range sup.Workers() {
		list = append(list, metrics.Worker{Config: kind.Config, Lifecycle: kind.Lifecycle, Static: kind.Static, Count: count})
	}
	return list
}

func manifestsOf(views []manifest.SourceView) []metrics.Manifests {
	list := make([]metrics.Manifests, len(views))
	for i := range views {
		v := &views[i]
		list[i] = metrics.Manifests{
			Source: string(v.Source), Ready: v.Ready(), Incomplete: len(v.Incomplete), Files: len(v.Units), LastGood: v.LastGood,
			LastRead: v.LastRead,
		}
		list[i].Faults, list[i].Warnings = v.CountFaults()
	}
	return list
}

// requestCounter counts the requests to the API.
func requestCounter(c *metrics.Counters) func(httpapi.Request) func() {
	return func(r httpapi.Request) func() { return c.Request(r.Method, r.Path, r.LongRunning) }
}

// podStates shows the metrics what the runtime has of each pod.
func podStates(o *cri.Observed) []metrics.PodState {
	states := make([]metrics.PodState, len(o.Own))
	for i, pod := range o.Own {
		s := &states[i]
		s.UID, s.Namespace, s.Name, s.Running = pod.UID, pod.Namespace, pod.Name, pod.Running()
		for j := range pod.Sandboxes {
			s.SandboxReady = s.SandboxReady || pod.Sandboxes[j].Ready
		}
		for j := range pod.Containers {
			switch pod.Containers[j].State {
			case cri.StateCreated:
				s.Containers.Created++
			case cri.StateRunning:
				s.Containers.Running++
			case cri.StateExited:
				s.Containers.Exited++
			default:
				s.Containers.Unknown++
			}
		}
	}
	return states
}

// probeCounts shows the metrics the results of probes.
func probeCounts(counts []probe.Count) []metrics.ProbeCount {
	list := make([]metrics.ProbeCount, len(counts))
	for i := range counts {
		c := &counts[i]
		buckets := make(map[float64]uint64, len(probe.Buckets))
		for j, bound := range probe.Buckets {
			buckets[bound] = c.Within[j]
		}
		list[i] = metrics.ProbeCount{
			UID: c.UID, Namespace: c.Namespace, Pod: c.Pod, Container: c.Container, Type: c.Kind.String(),
			Succeeded: c.Succeeded, Failed: c.Failed, Unknown: c.Unknown, Took: c.Took, Buckets: buckets,
		}
	}
	return list
}

// machine returns facts of this machine.
func machine() metrics.Machine {
	host := nodestatus.ReadHost("/")
	cores, sockets := nodestatus.Topology("/")
	return metrics.Machine{
		ID: host.MachineID, SystemUUID: host.SystemUUID, BootID: host.BootID, Kernel: host.Kernel, OS: host.OS,
		PhysicalCores: cores, Sockets: sockets,
	}
}
