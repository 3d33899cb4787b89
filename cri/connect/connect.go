package connect

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/private"
)

// Config configures Open.
type Config struct {
	// Dial are the options of the client. Its endpoint is that of the settings; empty chooses one.
	Dial cri.Options
	// Private is the private containerd.
	Private private.Config
	// Record is where the endpoint is recorded.
	Record private.EndpointFile
	// Kubelet returns a kubelet that uses the runtime at an endpoint, nil if there is none; err is why that could not
	// be found out.
	Kubelet func(endpoint string) (kubelet, err error)
	// Installation has the usual sockets, and finds a runtime that is being installed.
	Installation private.Installation
	// Binary returns the program of the private containerd.
	Binary func() (string, error)
}

// Runtime is the runtime that the pods run on.
type Runtime struct {
	Client *cri.Client
	// Private is the private containerd, already started; nil for another runtime.
	Private *private.Containerd
	// Kubelet is a kubelet that uses the same runtime, nil if there is none.
	Kubelet error
	// Remember records the endpoint. It is called once the runtime has responded, so that a
	// mistyped endpoint is not the one that a later start waits for.
	Remember func()
}

// Open connects to the runtime of the settings, else to the one used before, else to one that responds on its usual
// socket, else to a private containerd. If the record of the one used before cannot be read, the settings must name
// one.
func Open(ctx context.Context, cfg Config) (*Runtime, error) {
	remembered, err := cfg.Record.Load()
	if err != nil && cfg.Dial.Endpoint == "" {
		return nil, err // with another one each pod could be started a second time
	}
	if err != nil {
		cfg.Dial.Log.Warn("Previous container runtime is unknown; pods that another one still runs will run twice",
			"err", err)
	}
	dial, own := cfg.Dial, "unix://"+cfg.Private.Socket()
	if dial.Endpoint == "" {
		dial.Endpoint = private.Choose(ctx, remembered, cfg.Installation.Sockets, own)
		if remembered == "" && dial.Endpoint == own && !private.Answers(ctx, own) {
			if installed, found := cfg.Installation.Await(ctx, dial.Log); found {
				dial.Endpoint = installed
			}
		}
	}
	if remembered != "" && remembered != dial.Endpoint {
		if err := checkLeftBehind(ctx, remembered, dial.Instance, dial.Log); err != nil {
			return nil, err
		}
	}
	client, err := cri.Dial(dial)
	if err != nil {
		return nil, err
	}
	opened := &Runtime{Client: client}
	if dial.Endpoint == own {
		err = opened.startPrivate(ctx, cfg)
	} else {
		if len(cfg.Private.PodCIDRs) > 0 {
			dial.Log.Warn("--pod-cidr (podCIDR) has no effect: this container runtime configures the network of its pods",
				"endpoint", dial.Endpoint)
		}
		err = opened.checkKubelet(ctx, cfg, dial)
	}
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	opened.Remember = func() {}
	if remembered != dial.Endpoint {
		opened.Remember = sync.OnceFunc(func() {
			if err := cfg.Record.Save(dial.Endpoint); err != nil {
				dial.Log.Warn("Failed to record the runtime's endpoint, retrying", "err", err)
			}
		})
		if opened.Private != nil || responds(ctx, client) {
			opened.Remember()
		}
	}
	dial.Log.Info("Using container runtime", "endpoint", dial.Endpoint)
	return opened, nil
}

// checkKubelet looks for a kubelet that uses the same runtime. Without running pods
// of this daemon it is an error: the kubelet would kill what podstead starts. With
// running pods it is a warning: pods without a supervisor are worse.
func (r *Runtime) checkKubelet(ctx context.Context, cfg Config, dial cri.Options) error {
	kubelet, err := cfg.Kubelet(dial.Endpoint)
	if err != nil {
		dial.Log.Warn("Failed to check whether a kubelet uses the container runtime", "err", err)
	}
	if kubelet == nil {
		return nil
	}
	observed, err := r.Client.List(ctx)
	if err != nil || !slices.ContainsFunc(observed.Own, (*cri.Pod).Running) {
		return errors.Join(kubelet, err)
	}
	dial.Log.Warn("A kubelet uses the same container runtime", "err", kubelet)
	r.Kubelet = kubelet
	return nil
}

// firstResponseTimeout limits how long the start waits for a runtime that it has not used
// before. One that responds later is recorded when its pods have been listed.
const firstResponseTimeout = 3 * time.Second

// responds reports whether a container runtime responds.
func responds(ctx context.Context, client *cri.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, firstResponseTimeout)
	defer cancel()
	_, err := client.Version(ctx)
	return err == nil
}

// checkLeftBehind returns an error if pods of this daemon still run on another
// runtime: each of them would run twice.
func checkLeftBehind(ctx context.Context, endpoint, instance string, log *slog.Logger) error {
	old, err := cri.Dial(cri.Options{Endpoint: endpoint, Instance: instance, Log: log})
	if err != nil {
		return err
	}
	defer old.Close()
	observed, err := old.List(ctx)
	if err != nil {
		log.Warn("Previous container runtime does not answer; pods that it still runs will run twice", "endpoint", endpoint,
			"err", err)
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
		"stop them first (run podstead with --container-runtime-endpoint=%s and an empty manifest directory, or use crictl "+
		"--runtime-endpoint %s stopp), or keep that endpoint",
		running, endpoint, endpoint, endpoint)
}

func (r *Runtime) startPrivate(ctx context.Context, cfg Config) error {
	binary, err := cfg.Binary()
	if err != nil {
		return err
	}
	r.Private = private.New(cfg.Private, binary, cfg.Dial.Log)
	return r.Private.Start(ctx)
}
