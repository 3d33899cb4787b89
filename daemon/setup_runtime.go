package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/internal/unwritten"
)

// cniBinDirs are the directories of CNI plugins: installed by hand, by Debian, by
// Red Hat.
var cniBinDirs = []string{"/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni"}

// openedRuntime is the runtime that the pods run on.
type openedRuntime struct {
	client *cri.Client
	// private is the private containerd, already started; nil for another runtime.
	private *private.Containerd
	// instance labels the pods of this daemon.
	instance string
	// kubelet is a kubelet that uses the same runtime, nil if there is none.
	kubelet error
	// remember records the endpoint. It is called once the runtime has answered, so that a
	// mistyped endpoint is not the one that a later start waits for.
	remember func()
}

// openRuntime chooses the runtime, connects to it, and starts the private
// containerd if that is the one.
func (d *daemon) openRuntime(ctx context.Context) error {
	d.observers = newObservers()
	if err := d.openTracing(); err != nil {
		return err
	}
	rt, err := chooseRuntime(ctx, d.opts, cri.Options{
		Instance:       cri.Instance(machineID(d.nodeName, d.log), d.opts.Paths.Root),
		RequestTimeout: d.opts.Runtime.RequestTimeout,
		Log:            d.log, Observe: d.observers.counters.RuntimeCall,
	}, d.unwritten)
	if err != nil {
		return err
	}
	d.runtime, d.pulls = rt, cri.NewObservedPulls(rt.client)
	d.pullRecords = pullrecords.Open(
		pullrecords.Config{Dir: pullrecords.Dir(d.opts.Paths.Root), Images: rt.client, Unwritten: d.unwritten, Log: d.log})
	d.closeLater(rt.client)
	if rt.private != nil {
		used := driverSettings(&d.opts.Cgroups).OfRuntime()
		d.opts.Cgroups.Driver, d.opts.Cgroups.DriverHint = used.Set, used.Hint
		d.start(rt.private.Run)
	}
	return nil
}

// chooseRuntime connects to the runtime of the flags, else to the one used before,
// else to one that answers on its usual socket, else to a private containerd.
func chooseRuntime(ctx context.Context, o *config.Options, dial cri.Options, files *unwritten.Files) (*openedRuntime,
	error) {
	memory := private.NewEndpointFile(o.Paths.Root)
	remembered, err := memory.Load()
	if err != nil {
		return nil, err
	}
	cfg := privateConfig(o)
	cfg.Unwritten = files
	own := "unix://" + cfg.Socket()
	dial.Endpoint = o.Runtime.Endpoint
	if dial.Endpoint == "" {
		dial.Endpoint = private.Choose(ctx, remembered, private.UsualSockets, own)
		if remembered == "" && dial.Endpoint == own && !private.Answers(ctx, own) {
			if installed, found := private.SystemdInstallation.Await(ctx, dial.Log); found {
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
	opened := &openedRuntime{client: client, instance: dial.Instance}
	if dial.Endpoint == own {
		if opened.private, err = startPrivate(ctx, cfg, dial.Log); err != nil {
			return nil, err
		}
	} else {
		if len(o.Network.PodCIDRs) > 0 {
			dial.Log.Warn("--pod-cidr (podCIDR) has no effect: this container runtime configures the network of its pods",
				"endpoint", dial.Endpoint)
		}
		if opened.kubelet, err = checkKubelet(ctx, client, dial); err != nil {
			return nil, err
		}
	}
	opened.remember = sync.OnceFunc(func() {
		err := files.Write(memory.Path(), func() error { return memory.Save(dial.Endpoint) })
		if err != nil {
			dial.Log.Warn("Failed to record the runtime's endpoint, retrying", "err", err)
		}
	})
	if opened.private != nil || remembered == dial.Endpoint || answers(ctx, client) {
		opened.remember()
	}
	dial.Log.Info("Using container runtime", "endpoint", dial.Endpoint)
	return opened, nil
}

// checkKubelet looks for a kubelet that uses the same runtime. Without running pods
// of this daemon it is an error: the kubelet would kill what podstead starts. With
// running pods it is a warning: pods without a supervisor are worse.
func checkKubelet(ctx context.Context, client *cri.Client, dial cri.Options) (conflict, err error) {
	err = preflight.CheckKubelet("/proc", dial.Endpoint)
	var kubelet *preflight.KubeletError
	if !errors.As(err, &kubelet) {
		if err != nil {
			dial.Log.Warn("Failed to check whether a kubelet uses the container runtime", "err", err)
		}
		return nil, nil
	}
	observed, listErr := client.List(ctx)
	if listErr != nil || !slices.ContainsFunc(observed.Own, (*cri.Pod).Running) {
		return nil, errors.Join(err, listErr)
	}
	dial.Log.Warn("A kubelet uses the same container runtime", "err", err)
	return err, nil
}

// firstAnswerTimeout limits how long the start waits for a runtime that it has not used
// before. One that answers later is recorded when its pods have been listed.
const firstAnswerTimeout = 3 * time.Second

// answers reports whether a container runtime answers.
func answers(ctx context.Context, client *cri.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, firstAnswerTimeout)
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

func startPrivate(ctx context.Context, cfg private.Config, log *slog.Logger) (*private.Containerd, error) {
	binary, err := private.Binary()
	if err != nil {
		return nil, err
	}
	c := private.New(cfg, binary, log)
	return c, c.Start(ctx)
}

// privateConfig returns the configuration of the private containerd.
func privateConfig(o *config.Options) private.Config {
	return private.Config{
		Root:       filepath.Join(o.Paths.Root, "containerd"),
		State:      filepath.Join(filepath.Dir(o.API.Socket), "containerd"),
		CNIConfDir: o.Runtime.CNIConfDir,
		CNIBinDirs: cniBinDirs,
		PauseImage: o.Runtime.PauseImage,
		PodCIDRs:   o.Network.PodCIDRs,

		SystemdCgroup: driverSettings(&o.Cgroups).UseSystemd(),
	}
}
