package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/stats"
	"github.com/podstead/podstead/supervisor"
)

// newMetrics makes what Prometheus scrapes.
func newMetrics(node string, src *sources, sup *supervisor.Supervisor, p parts, log *slog.Logger) httpapi.Metrics {
	e := metrics.New(p.counters, metrics.Sources{
		NodeName: node, Version: versionNumber(),
		Pods:       func() []metrics.PodState { return podStates(p.observer.Observed()) },
		LastRelist: func() time.Time { return p.observer.Stats().LastRelist },
		Workers:    func() []metrics.Worker { return workersOf(sup) },
		Statuses:   p.statuses.List,
		Manifests:  func() []metrics.Manifests { return manifestsOf(src.config.Snapshot()) },
		Claims:     func() []metrics.Claim { return claimsOf(sup, log) },
		Probes:     func() []metrics.ProbeCount { return probeCounts(p.prober.Counts()) },
		Specs:      sup.Pods,
		Stats:      p.stats,
	})
	return httpapi.Metrics{Kubelet: e.Kubelet(), Resource: e.Resource(), Probes: e.Probes(), Cadvisor: e.Cadvisor()}
}

func workersOf(sup *supervisor.Supervisor) (list []metrics.Worker) {
	for kind, count := range sup.Workers() {
		list = append(list, metrics.Worker{Config: kind.Config, Lifecycle: kind.Lifecycle, Static: kind.Static, Count: count})
	}
	return list
}

func manifestsOf(views []manifest.SourceView) (list []metrics.Manifests) {
	for _, v := range views {
		one := metrics.Manifests{Source: string(v.Source), Delivered: v.Delivered, Units: len(v.Units), LastGood: v.LastGood}
		if v.Fault != nil {
			one.Faults++
		}
		for _, u := range v.Units {
			for _, f := range u.Faults {
				if f.Warning {
					one.Warnings++
				} else {
					one.Faults++
				}
			}
		}
		list = append(list, one)
	}
	return list
}

// claimsOf are the claims that pods use.
func claimsOf(sup *supervisor.Supervisor, log *slog.Logger) (list []metrics.Claim) {
	claims, err := sup.Claims()
	if err != nil {
		log.Debug("claims are not listed", "error", err)
	}
	for _, c := range claims {
		if len(c.Users) > 0 {
			fs, err := stats.Statfs(c.Path)
			if err != nil {
				continue // the directory has just been removed
			}
			list = append(list, metrics.Claim{Namespace: c.Namespace, Name: c.Name, FS: fs})
		}
	}
	return slices.Clip(list)
}

// served counts the requests to the API.
func served(c *metrics.Counters) func(httpapi.Request) func() {
	return func(r httpapi.Request) func() { return c.Request(r.Method, r.Path, r.LongRunning) }
}
