package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/gc"
	"github.com/podstead/podstead/supervisor"
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

// sourcesPatience is how long after the start nobody removes images because of a
// full disk, or by command, while a source has not said what it wants and was
// not restored either. The regular collection waits for its first period.
const sourcesPatience = 10 * time.Second

// newImages makes the collection of images. The supervisor, which knows what
// manifests name, is made after it.
func newImages(o *options.Options, rt *openedRuntime, p parts, sup func() *supervisor.Supervisor, log *slog.Logger) *gc.Images {
	until := time.Now().Add(sourcesPatience)
	return gc.NewImages(gc.ImagesConfig{
		Policy: gc.ImagePolicy{High: o.Garbage.ImageHigh, Low: o.Garbage.ImageLow, Period: o.Garbage.ImagePeriod, MinAge: o.Garbage.ImageMinAge, MaxAge: o.Garbage.ImageMaxAge},
		Store:  rt.client, Runtime: rt.client.Endpoint(), Observed: p.observer.Observed,
		Wanted: func() []string { return imagesOf(sup().Pods()) },
		Settled: func(ctx context.Context) {
			ctx, cancel := context.WithDeadline(ctx, until)
			defer cancel()
			_ = sup().WaitSourcesReady(ctx)
		},
		File: filepath.Join(o.Paths.Root, "images.json"), Events: p.events, Removed: p.counters.ImageRemoved, Log: log,
	})
}

// imagesOf are the images that pods name.
func imagesOf(pods []*v1.Pod) (images []string) {
	for _, pod := range pods {
		for i := range pod.Spec.InitContainers {
			images = append(images, pod.Spec.InitContainers[i].Image)
		}
		for i := range pod.Spec.Containers {
			images = append(images, pod.Spec.Containers[i].Image)
		}
		for i := range pod.Spec.EphemeralContainers {
			images = append(images, pod.Spec.EphemeralContainers[i].Image)
		}
		for i := range pod.Spec.Volumes {
			if source := pod.Spec.Volumes[i].Image; source != nil {
				images = append(images, source.Reference)
			}
		}
	}
	return images
}
