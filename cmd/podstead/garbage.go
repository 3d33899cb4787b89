package main

import (
	"log/slog"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/supervisor/pleg"
)

// containerPolicy is what is kept of dead containers.
func containerPolicy(o options.Garbage) gc.ContainerPolicy {
	return gc.ContainerPolicy{MinAge: o.ContainerMinAge, MaxPerContainer: o.MaxPerContainer, MaxTotal: max(o.MaxContainers, 0)}
}

// logRuntime is the runtime as the rotation of logs needs it.
type logRuntime struct {
	*pleg.PLEG
	*cri.Client
}

// newLogs makes the rotation of logs.
func newLogs(o *options.Options, rt *openedRuntime, p parts, log *slog.Logger) *gc.Logs {
	return gc.NewLogs(gc.LogsConfig{
		Policy:  gc.LogPolicy{MaxSize: o.Garbage.LogMaxSize, MaxFiles: o.Garbage.LogMaxFiles, MaxPod: o.Garbage.PodLogsMax},
		Runtime: logRuntime{p.observer, rt.client}, Root: o.Paths.PodLogs, Events: p.events, Log: log,
	})
}
