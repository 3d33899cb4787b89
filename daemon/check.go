package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/cli"
	"github.com/podstead/podstead/config"
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/private"
	"github.com/podstead/podstead/daemon/preflight"
	"github.com/podstead/podstead/internal/boundedfile"
	"github.com/podstead/podstead/node/cgroup"
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
--fix, which runs the commands that need no decision and then checks again. The exit code
is 1 if something prevents pods from running.`,
		Example: `  podstead check
  podstead check --fix
  podstead check --config ./config.yaml
  podstead check --container-runtime-endpoint unix:///run/crio/crio.sock -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" {
				return &cli.ExitError{Code: cli.ExitUsage, Err: fmt.Errorf("-o %s: must be json, or not set for text", output)}
			}
			running := daemonProcess(o.API.Socket)
			flags := cmd.Flags()
			if running != 0 && !flagsOfRun(flags) {
				daemonSet, daemonOptions := daemonFlags(running)
				if daemonSet != nil {
					flags, o = daemonSet, daemonOptions
				}
			}
			config, err := checkConfig(o, flags)
			if err != nil {
				return &cli.ExitError{Code: cli.ExitUsage, Err: err}
			}
			list := config
			if preflight.Failed(config) == 0 {
				if running == 0 {
					running = daemonProcess(o.API.Socket) // the file may set another socket
				}
				host := preflight.Run(preflight.ThisHost(), checkSettings(cmd.Context(), o, running))
				// A fix can reveal the next finding: a new network needs a kernel module.
				for ran := map[string]bool{}; fix && repair(cmd.Context(), cmd.ErrOrStderr(), host, ran); {
					host = preflight.Run(preflight.ThisHost(), checkSettings(cmd.Context(), o, running))
				}
				list = append(list, host...)
			}
			if err := printFindings(cmd.OutOrStdout(), list, output); err != nil {
				return err
			}
			if preflight.Failed(list) > 0 {
				return &cli.ExitError{Code: cli.ExitFailed}
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "`format`: json, or text without it")
	cmd.Flags().BoolVar(&fix, "fix", false, "run the fixes that need no decision, then check again")
	o.AddFlags(cmd.Flags())
	return cmd
}

// checkConfig completes the options and returns what is to report about the configuration
// files. Without valid settings nothing else can be checked. The error is for the command
// line.
func checkConfig(o *config.Options, flags *pflag.FlagSet) ([]preflight.Finding, error) {
	const check = "configuration"
	notices, err := o.Complete(flags)
	if inFile := (*config.FileError)(nil); errors.As(err, &inFile) {
		var list []preflight.Finding
		for line := range strings.SplitSeq(err.Error(), "\n") {
			list = append(list, preflight.Finding{Check: check, Level: preflight.Fail, Message: line, Fix: "correct the file; docs/configuration.md lists the fields"})
		}
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	var list []preflight.Finding
	for _, notice := range notices {
		list = append(list, preflight.Finding{Check: check, Level: preflight.Warn, Message: notice})
	}
	if files := o.ConfigFiles(); len(list) == 0 && len(files) > 0 {
		list = append(list, preflight.Finding{Check: check, Level: preflight.OK, Message: strings.Join(files, ", ")})
	}
	return list, nil
}

// repair runs the commands of findings and reports whether there were any. It prints each
// command and its output. Those in ran are not run again, and the others are added to it.
func repair(ctx context.Context, w io.Writer, list []preflight.Finding, ran map[string]bool) bool {
	before := len(ran)
	for _, f := range list {
		if f.Repair == "" || ran[f.Repair] {
			continue
		}
		ran[f.Repair] = true
		fmt.Fprintf(w, "+ %s\n", f.Repair)
		c := exec.CommandContext(ctx, "sh", "-c", f.Repair)
		c.Stdout, c.Stderr = w, w
		if err := c.Run(); err != nil {
			fmt.Fprintf(w, "%s: the fix failed: %v\n", f.Check, err)
		}
	}
	return len(ran) > before
}

// flagsOfRun reports whether any flag of run is set.
func flagsOfRun(f *pflag.FlagSet) bool {
	given := false
	f.Visit(func(flag *pflag.Flag) {
		given = given || !slices.Contains([]string{"output", "fix", "api-socket", "help"}, flag.Name)
	})
	return given
}

// daemonProcess returns the process ID of the daemon that listens on the socket, 0 if
// there is none.
func daemonProcess(socket string) int {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return 0
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(peer.Pid)
		}
	})
	return pid
}

// maxCommandLine bounds the command line of the process that listens on the socket.
const maxCommandLine = 64 << 10

// daemonFlags returns the flags that a daemon was started with, nil if they are
// unknown, for example if another program listens on the socket.
func daemonFlags(pid int) (*pflag.FlagSet, *config.Options) {
	text, err := boundedfile.Head(fmt.Sprintf("/proc/%d/cmdline", pid), maxCommandLine)
	if err != nil {
		return nil, nil
	}
	args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
	at := slices.Index(args, "run")
	if at < 1 {
		return nil, nil
	}
	o := &config.Options{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o.AddFlags(flags)
	if flags.Parse(args[at+1:]) != nil {
		return nil, nil
	}
	return flags, o
}

// runtimeTimeout limits a request to the runtime.
const runtimeTimeout = 10 * time.Second

func checkSettings(ctx context.Context, o *config.Options, running int) preflight.Settings {
	s := preflight.Settings{
		Root: o.Paths.Root, PodLogs: o.Paths.PodLogs, Manifests: o.Manifests.Path, Socket: o.API.Socket,
		Ports:   map[string]string{"health": o.API.HealthAddress, "clients over TLS": o.Remote.Address, "everybody to see numbers": o.Remote.ReadOnlyAddress},
		Running: running, CNI: preflight.CNI{ConfDir: o.Runtime.CNIConfDir, BinDirs: cniBinDirs},
		ResolvConf: o.Network.ResolvConf, NodeIP: len(o.Network.NodeIPs) > 0,
		CgroupDriver: o.Cgroups.Driver, Built: built(),
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
	s.PodDNS = podDNSState(o)
	r := &s.Runtime
	own := "unix://" + privateConfig(o).Socket()
	r.Endpoint = o.Runtime.Endpoint
	if r.Endpoint == "" {
		remembered, _ := private.NewEndpointFile(o.Paths.Root).Load()
		r.Endpoint = private.Choose(ctx, remembered, private.UsualSockets, own)
	}
	if r.Private = r.Endpoint == own; r.Private {
		r.Log = privateConfig(o).CurrentLog()
	}
	shown := askRuntime(ctx, r)
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
func podDNSState(o *config.Options) (state preflight.PodDNS) {
	status, err := keeper.Ask(nameserverDir(o))
	if err != nil {
		return state // it does not run
	}
	state.Running, state.Failed = true, status.Failed
	for _, a := range status.Listening {
		state.Listening = append(state.Listening, a.String())
	}
	return state
}

// askRuntime fills in what the runtime reports of itself.
func askRuntime(ctx context.Context, r *preflight.Runtime) (shown cri.RuntimeConfig) {
	ctx, cancel := context.WithTimeout(ctx, runtimeTimeout)
	defer cancel()
	// The instance is not used: check creates nothing in the runtime.
	client, err := cri.Dial(cri.Options{Endpoint: r.Endpoint, Instance: "check", RequestTimeout: runtimeTimeout})
	if err != nil {
		r.Err = err
		return shown
	}
	defer client.Close()
	v, err := client.Version(ctx)
	if err != nil {
		r.Err = err
		return shown
	}
	r.Name, r.Version = v.Name, v.Version
	st, err := client.RuntimeStatus(ctx)
	if err != nil {
		r.Err = err
		return shown
	}
	r.NotReady, r.NoNetwork = st.RuntimeMessage, st.NetworkMessage
	// Checks of what these do not report are skipped.
	r.CgroupDriver, _ = client.CgroupDriver(ctx)
	shown, _ = client.RuntimeConfig(ctx)
	r.Images, _ = client.ImageMount(ctx)
	if r.PauseImage = shown.SandboxImage; r.PauseImage != "" {
		image, err := client.ImageStatus(ctx, r.PauseImage)
		r.PauseMissing = err == nil && image == nil
	}
	return shown
}

// built returns the time at which this program was built, zero if it is unknown.
func built() time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return time.Time{}
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.time" {
			at, _ := time.Parse(time.RFC3339, setting.Value)
			return at
		}
	}
	return time.Time{}
}

// printFindings writes the findings, each problem followed by the command that
// fixes it.
func printFindings(w io.Writer, list []preflight.Finding, output string) error {
	failed, warned := preflight.Failed(list), 0
	for _, f := range list {
		if f.Level == preflight.Warn {
			warned++
		}
	}
	if output == "json" {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			Findings []preflight.Finding `json:"findings"`
			Failed   int                 `json:"failed"`
			Warned   int                 `json:"warned"`
		}{list, failed, warned})
	}
	width := 0
	for _, f := range list {
		width = max(width, len(f.Check))
	}
	var text strings.Builder
	for _, f := range list {
		fmt.Fprintf(&text, "%-4s  %-*s  %s\n", f.Level, width, f.Check, f.Message)
		if f.Fix != "" {
			fmt.Fprintf(&text, "%*s  fix: %s\n", 6+width, "", f.Fix)
		}
	}
	fmt.Fprintf(&text, "%d failed, %d warnings, %d ok\n", failed, warned, len(list)-failed-warned)
	_, err := io.WriteString(w, text.String())
	return err
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

		SystemdCgroup: usesSystemd(&o.Cgroups, "/run/systemd/system", "/proc/self/mountinfo"),
	}
}

// usesSystemd reports whether systemd creates the cgroups of a private containerd. It must be the
// init process, of which booted is the sign (sd_booted): without it the driver could start no container,
// so that no setting chooses it then; the configuration of a kubelet often has it, and was only a
// hint. Without a setting it must also manage the controllers, as it does on cgroup v2. There it may
// undo limits that it does not know; on v1 it leaves the cgroups of others alone, and with cgroupfs no
// shutdown signals all containers at once.
func usesSystemd(c *config.Cgroups, booted, mountinfo string) bool {
	driver := cmp.Or(c.Driver, c.DriverHint)
	if driver == string(cgroup.Cgroupfs) {
		return false
	}
	fi, err := os.Lstat(booted)
	if err != nil || !fi.IsDir() {
		return false
	}
	if driver == string(cgroup.Systemd) {
		return true
	}
	r, err := cgroup.OpenReader(mountinfo)
	return err == nil && r.V2()
}
