package main

import (
	"log/slog"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/supervisor/cgroup"
	"github.com/podstead/podstead/supervisor/stats"
)

// newStats makes what measures. Where no cgroups are, the runtime tells.
func newStats(o *options.Options, rt *openedRuntime, p parts, log *slog.Logger) *stats.Collector {
	reader, err := cgroup.OpenReader("")
	if err != nil {
		log.Warn("what pods use is told by the runtime alone", "error", err)
	}
	return stats.New(stats.Config{
		Runtime: rt.client, Observed: p.observer.Observed, Cgroups: reader, CgroupRoot: o.Cgroups.Root,
		Root: o.Paths.Root, PodLogs: o.Paths.PodLogs, Log: log,
	})
}
