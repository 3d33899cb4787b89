package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podstead/podstead/cluster"
	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/connect"
	"github.com/podstead/podstead/cri/imagearchives"
	"github.com/podstead/podstead/cri/imagestore"
	"github.com/podstead/podstead/cri/pullrecords"
	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/internal/logging"
	"github.com/podstead/podstead/internal/registry"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/internal/systemd"
	"github.com/podstead/podstead/internal/tracing"
	"github.com/podstead/podstead/internal/unwritten"
	"github.com/podstead/podstead/node/csi"
	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/node/dra"
	"github.com/podstead/podstead/node/nameserver/poddns"
	"github.com/podstead/podstead/node/resourcemanagers"
	"github.com/podstead/podstead/node/shutdown"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/admit"
	"github.com/podstead/podstead/supervisor/credential"
)

// daemon is podstead while it is assembled. Each phase sets one group of fields,
// from those of the phases before it, and registers what it starts as tasks. It has one
// field per result of a phase.
type daemon struct {
	opts *config.Options
	log  *slog.Logger
	// logOutput is what log writes to.
	logOutput *logging.Output

	// prepareHost
	unwritten   *unwritten.Files
	disk        statefile.Disk
	nodeName    string
	admitNode   admit.Node
	credentials credential.Node
	closers     []io.Closer
	// openRuntime; tracer is nil without tracing
	tracer  *tracing.Tracer
	runtime *connect.Runtime
	// instance labels the pods of this daemon.
	instance string
	pulls    *cri.ObservedPulls
	// images pulls with pulls, and syncs what was pulled or loaded before it is used.
	images      *imagestore.Store
	pullRecords *pullrecords.Records
	// openRegistries
	registries *registry.Client
	// openSources
	sources *sources
	// createObservers
	archives  *imagearchives.Directory
	observers observers
	csi       *csi.Manager
	// createDevices; bound holds the objects of a cluster's pods, nil without one; claims is nil without
	// a cluster, unless the node has claims of one that it has left
	devices *devices.Manager
	bound   *cluster.Objects
	claims  *dra.Manager
	// openNameserver; nil without a name server for pods
	podDNS *poddns.Server
	// createSupervisor; managers is nil if none is configured
	sup      *supervisor.Supervisor
	managers *resourcemanagers.Managers
	// protectedMemory is that of memory QoS; nil without.
	protectedMemory func() (guaranteed, burstable int64)
	// createNodeServices
	node nodeServices
	// joinCluster; nil without a kubeconfig
	member *cluster.Adapter
	// openAPI
	api       *httpapi.Server
	listeners *httpapi.Listeners

	tasks []task
}

// task runs until its context ends.
type task func(ctx context.Context) error

// start registers tasks for serve.
func (d *daemon) start(tasks ...task) { d.tasks = append(d.tasks, tasks...) }

// closeLater closes something when the daemon has ended, in reverse order.
func (d *daemon) closeLater(c io.Closer) { d.closers = append(d.closers, c) }

// closer is a function as an io.Closer.
type closer func() error

// Close calls the function.
func (c closer) Close() error { return c() }

func (d *daemon) close() {
	for i := len(d.closers) - 1; i >= 0; i-- {
		if err := d.closers[i].Close(); err != nil {
			d.log.Debug("Failed to close at the end", "err", err)
		}
	}
}

// callsTimeout is how long the daemon's end waits for calls that create or remove
// something in the runtime: less than TimeoutStopSec of examples/podstead.service. A
// call that is interrupted can leave processes and cgroups that no list shows.
const callsTimeout = 15 * time.Second

// serve runs all tasks until requested ends, which is no failure, or until one of
// them fails. While the host shuts down it first waits for pods to end.
func (d *daemon) serve(requested context.Context) error {
	// --runonce ends the rest through the same context.
	ctx, end := context.WithCancel(context.WithoutCancel(requested))
	defer end()
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range d.tasks {
		g.Go(func() error {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		})
	}
	g.Go(func() error { return d.api.Serve(ctx, d.listeners) })
	g.Go(func() error {
		defer end()
		shutdown.AwaitStop(ctx, requested, d.node.guard, d.log)
		return nil
	})
	g.Go(func() error { return systemd.Watchdog(ctx, d.sup.SyncLoopHealthy, d.log) })
	g.Go(func() error {
		<-ctx.Done()
		systemd.Notify(systemd.Stopping, d.log)
		return nil
	})
	if d.opts.RunOnce {
		g.Go(func() error {
			defer end()
			return d.runOnce(ctx)
		})
	}
	stopWaiting := context.AfterFunc(ctx, func() {
		time.AfterFunc(callsTimeout, func() { _ = d.runtime.Client.Close() })
	})
	defer stopWaiting()
	systemd.Notify(systemd.Ready, d.log)
	err := g.Wait()
	if d.sup.ShuttingDown() {
		d.log.Info("Shutdown complete; pods will start again after boot")
	} else {
		d.log.Info("Shutting down; pods keep running")
	}
	return err
}
