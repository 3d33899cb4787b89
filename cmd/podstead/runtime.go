package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/cmd/podstead/preflight"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/httpapi/metrics"
)

// cniBinDirs are where CNI plugins are installed: by hand, by Debian, by
// Red Hat.
var cniBinDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}

// openedRuntime is the runtime that the pods live in.
type openedRuntime struct {
	client *cri.Client
	// own is the private containerd, which answers; nil if it is another one.
	own      *private.Containerd
	instance string
}

// openRuntime settles which runtime the pods live in.
func openRuntime(ctx context.Context, o *options.Options, instance string, counters *metrics.Counters, log *slog.Logger) (*openedRuntime, error) {
	memory := private.NewMemory(o.Paths.Root)
	remembered, err := memory.Load()
	if err != nil {
		return nil, err
	}
	cfg := privateConfig(o)
	own := "unix://" + cfg.Socket()
	endpoint := o.Runtime.Endpoint
	if endpoint == "" {
		endpoint = private.Choose(ctx, remembered, private.UsualSockets, own)
	}
	if remembered != "" && remembered != endpoint {
		if err := checkLeftBehind(ctx, remembered, instance, log); err != nil {
			return nil, err
		}
	}
	client, err := cri.Dial(cri.Options{Endpoint: endpoint, Instance: instance, RequestTimeout: o.Runtime.RequestTimeout, Log: log, Observe: counters.Call})
	if err != nil {
		return nil, err
	}
	opened := &openedRuntime{client: client, instance: instance}
	if endpoint == own {
		if opened.own, err = startPrivate(ctx, cfg, log); err != nil {
			return nil, err
		}
	} else if err := preflight.CheckKubelet("/proc", endpoint); err != nil {
		return nil, err
	}
	if err := memory.Save(endpoint); err != nil {
		return nil, err
	}
	log.Info("pods run on", "endpoint", endpoint)
	return opened, nil
}

// checkLeftBehind refuses to move to another runtime while pods of ours run on
// the old one: each would run twice.
func checkLeftBehind(ctx context.Context, endpoint, instance string, log *slog.Logger) error {
	old, err := cri.Dial(cri.Options{Endpoint: endpoint, Instance: instance, Log: log})
	if err != nil {
		return err
	}
	defer old.Close()
	observed, err := old.List(ctx)
	if err != nil {
		log.Warn("the runtime used so far does not answer; pods that it still runs would run twice", "endpoint", endpoint, "error", err)
		return nil
	}
	running := 0
	for _, p := range observed.Own {
		if p.Running() {
			running++
		}
	}
	if running == 0 {
		return nil
	}
	return fmt.Errorf("%d pods of this podstead still run on %s and would run twice; "+
		"end them first (run podstead with --container-runtime-endpoint=%s and an empty manifest set, or use crictl --runtime-endpoint %s stopp), or keep that endpoint",
		running, endpoint, endpoint, endpoint)
}

func startPrivate(ctx context.Context, cfg private.Config, log *slog.Logger) (*private.Containerd, error) {
	binary, err := private.Binary()
	if err != nil {
		return nil, err
	}
	own := private.New(cfg, binary, log)
	return own, own.Start(ctx)
}
