package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/podstead/podstead/cli"
	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/internal/logging"
	"github.com/podstead/podstead/supervisor"
	"github.com/podstead/podstead/supervisor/podstart"
)

// Commands returns the commands that use the daemon's packages.
func Commands() []*cobra.Command {
	return []*cobra.Command{runCommand(), checkCommand(), nameserverCommand()}
}

func runCommand() *cobra.Command {
	var o config.Options
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the pods of a directory or a URL and keep them running",
		Long: `Run the pods of a directory or a URL and keep them running.

Stopping the daemon leaves the pods running; the next start adopts them. To stop
a pod, remove its manifest.`,
		Example: `  podstead run
  podstead run --pod-manifest-path ./pods --container-runtime-endpoint unix:///run/containerd/containerd.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			notices, err := o.Complete(cmd.Flags())
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			if err := preflight.RequireRoot(os.Geteuid()); err != nil {
				return err
			}
			out := &logging.Output{To: os.Stderr}
			log := logging.New(out, o.Log.Format, o.Log.Debug)
			o.LogFiles(log)
			for _, n := range notices {
				log.Warn(n)
			}
			return run(cmd.Context(), &o, log, out)
		},
	}
	o.AddFlags(cmd.Flags())
	helpInGroups(cmd)
	return cmd
}

// helpInGroups prints the flags of the daemon in the groups and the order of the configuration.
func helpInGroups(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.SetHelpFunc(cli.Help(config.GroupAnnotation))
}

// run assembles the daemon in phases, in the order in which data flows through its
// packages, and runs it until ctx ends. Pods are left running.
func run(ctx context.Context, o *config.Options, log *slog.Logger, out *logging.Output) error {
	d := &daemon{opts: o, log: log, logOutput: out}
	defer d.close()
	for _, phase := range []func(context.Context) error{
		d.prepareHost,
		d.openRuntime,
		d.openRegistries,
		d.openSources,
		d.createObservers,
		d.createDevices,
		d.openNameserver,
		d.createSupervisor,
		d.servePodResources,
		d.createNodeServices,
		d.joinCluster,
		d.openAPI,
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return d.serve(ctx)
}

// checkManifestPath returns an error if the manifest directory does not exist: without --runonce the daemon waits
// for it, which may be on a disk that is mounted late.
func checkManifestPath(path string) error {
	if path == "" {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--runonce: %s does not exist; create it, or name another directory with --pod-manifest-path", path)
	}
	return nil
}

// runOnce waits until each pod runs or has failed, and prints that.
func (d *daemon) runOnce(ctx context.Context) error {
	if err := checkManifestPath(d.opts.Manifests.Path); err != nil {
		return err
	}
	err := podstart.Once{
		SourcesReady: d.sup.WaitSourcesReady, Prepared: d.sources.rollouts.WaitPrepared, Started: d.sup.WaitStarted,
		Faults: d.sources.config.Faults,
	}.Run(ctx, os.Stdout)
	if errors.Is(err, supervisor.ErrNotStarted) {
		return &cli.ExitError{Code: cli.ExitFailed} // its pods are printed
	}
	return err
}
