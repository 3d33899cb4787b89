package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cli"
	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/internal/buildinfo"
	"github.com/podstead/podstead/internal/statefile"
	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/node/nameserver/keeper"
)

func checkCommand() *cobra.Command {
	o := &config.Options{}
	var output string
	var fix bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check this host for what pods need, and print how to fix it",
		Long: `Check the configuration files and this host for what pods need, and print the commands
that fix what is missing.

The command accepts the flags of run, and checks the host for a daemon with these
flags. Without flags it uses those of a running daemon. It changes nothing, except with
--fix, which runs the commands that need no decision and checks again after each. The exit
code is 1 if something prevents pods from running.`,
		Example: `  podstead check
  podstead check --fix
  podstead check --config ./config.yaml
  podstead check --container-runtime-endpoint unix:///run/crio/crio.sock -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("-o %s: must be json, or not set for text", output)}
			}
			running := preflight.Listener(o.API.Socket)
			flags := cmd.Flags()
			if running != 0 && !flagsOfRun(flags) {
				if ofDaemon, parsed, ok := config.ParseRun(preflight.Arguments(running)); ok {
					flags, o = ofDaemon, parsed
				}
			}
			config, err := checkConfig(o, flags)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			list := config
			if preflight.Failed(config) == 0 {
				if running == 0 {
					running = preflight.Listener(o.API.Socket) // the file may set another socket
				}
				check := func() []preflight.Finding {
					return preflight.Run(preflight.ThisHost(), checkSettings(cmd.Context(), o, running))
				}
				host := []preflight.Finding(nil)
				if fix {
					host = preflight.Repair(cmd.Context(), cmd.ErrOrStderr(), check)
				} else {
					host = check()
				}
				list = append(list, host...)
			}
			if err := preflight.Print(cmd.OutOrStdout(), list, output); err != nil {
				return err
			}
			if preflight.Failed(list) > 0 {
				return &cli.ExitError{Code: cli.ExitFailed}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json, or text without it")
	cmd.Flags().BoolVar(&fix, "fix", false, "run the fixes that need no decision, and check again after each")
	o.AddFlags(cmd.Flags())
	helpInGroups(cmd)
	return cmd
}

// checkConfig completes the options and returns what is to report about the configuration
// files. Without valid settings nothing else can be checked. The error is for the command
// line.
func checkConfig(o *config.Options, flags *pflag.FlagSet) ([]preflight.Finding, error) {
	const check = "configuration" // also the name of its group
	notices, err := o.Complete(flags)
	if inFile := (*config.FileError)(nil); errors.As(err, &inFile) {
		var list []preflight.Finding
		for line := range strings.SplitSeq(err.Error(), "\n") {
			list = append(list, preflight.Finding{Group: check, Check: check, Level: preflight.Fail, Message: line,
				Fix: "correct the file; docs/configuration.md lists the fields"})
		}
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	var list []preflight.Finding
	for _, notice := range notices {
		list = append(list, preflight.Finding{Group: check, Check: check, Level: preflight.Warn, Message: notice})
	}
	if files := o.ConfigFiles(); len(list) == 0 && len(files) > 0 {
		list = append(list, preflight.Finding{Group: check, Check: check, Level: preflight.OK,
			Message: strings.Join(files, ", ")})
	}
	return list, nil
}

// flagsOfRun reports whether any flag of run is set.
func flagsOfRun(f *pflag.FlagSet) bool {
	given := false
	f.Visit(func(flag *pflag.Flag) {
		given = given || !slices.Contains([]string{"output", "fix", "api-socket", "help"}, flag.Name)
	})
	return given
}

func checkSettings(ctx context.Context, o *config.Options, running int) preflight.Settings {
	s := preflight.Settings{
		Root: o.Paths.Root, PodLogs: o.Paths.PodLogs, Manifests: o.Manifests.Path, Socket: o.API.Socket,
		Ports: map[string]string{"health": o.API.HealthAddress, "clients over TLS": o.Remote.Address,
			"everybody to see numbers": o.Remote.ReadOnlyAddress},
		Running: running, CNI: preflight.CNI{ConfDir: o.Runtime.CNIConfDir, BinDirs: cniBinDirs},
		ResolvConf: o.Network.ResolvConf, NodeIP: len(o.Network.NodeIPs) > 0,
		CgroupDriver: o.Cgroups.Driver, Built: buildinfo.Made(),
		MinFree:       o.Eviction.MinFree,
		RouteLocalnet: firewall.Enabled(firewall.LocalnetDir),
	}
	if network, err := private.NetworkConfig(cniBinDirs...); err == nil {
		var line bytes.Buffer
		if json.Compact(&line, network) == nil {
			s.CNI.NewConfig = line.String()
		}
	}
	if len(s.RouteLocalnet) > 0 {
		s.LocalnetRule = firewall.NewLocalnet(nil).Installed(ctx)
	}
	r := &s.Runtime
	own := "unix://" + privateConfig(o).Socket()
	r.Endpoint = o.Runtime.Endpoint
	if r.Endpoint == "" {
		var remembered string
		if remembered, r.Err = private.NewEndpointFile(o.Paths.Root, statefile.Disk{}).Load(); r.Err != nil {
			return s
		}
		r.Endpoint = private.Choose(ctx, remembered, private.UsualSockets, own)
	}
	if r.Private = r.Endpoint == own; r.Private {
		r.Log = privateConfig(o).CurrentLog()
	}
	s.PodDNS = podDNSState(o, r.Private)
	shown := r.Ask(ctx)
	// A private runtime reports the directories that podstead configured.
	if shown.CNIConfDir != "" {
		s.CNI.ConfDir = shown.CNIConfDir
	}
	if len(shown.CNIBinDirs) > 0 {
		s.CNI.BinDirs = shown.CNIBinDirs
	}
	return s
}

// podDNSState asks the name server of pods for its state.
func podDNSState(o *config.Options, ownRuntime bool) (state preflight.PodDNS) {
	status, err := keeper.Ask(nameserverDir(o))
	if err != nil {
		return state // it does not run
	}
	state.Running, state.Failed = true, status.Failed
	// An error is that of a runtime that was never started, for which no process runs either.
	state.Given, _ = givesNameserver(o, ownRuntime)
	for _, a := range status.Listening {
		state.Listening = append(state.Listening, a.String())
	}
	return state
}
