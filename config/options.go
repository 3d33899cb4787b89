package config

import (
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// Options are the settings of the daemon, valid after Complete. It has one field per
// group of flags.
type Options struct {
	Manifests     Manifests
	Runtime       Runtime
	Registries    Registries
	Network       Network
	PodDNS        PodDNS
	Cgroups       Cgroups
	CPUs          CPUs
	MemoryManager MemoryManager
	Memory        Memory
	Topology      Topology
	Paths         Paths
	API           API
	Policy        Policy
	Garbage       Garbage
	Stats         Stats
	Shutdown      Shutdown
	Cluster       Cluster
	Eviction      Eviction
	Remote        Remote
	// LocalDevices are those of the configuration that need no device plugin.
	LocalDevices LocalDevices
	Tracing      Tracing
	// AutoUpdate is about the images of pods that ask for updates.
	AutoUpdate AutoUpdate
	// Rollouts are about how static pods are replaced.
	Rollouts Rollouts
	// Node is the value of --hostname-override; empty if not set.
	Node string
	// RunOnce starts every pod, reports the result and exits.
	RunOnce bool
	Log     Log

	_                     noCopy
	table                 *table
	configFile, configDir string
	healthPort            int
	healthHost            string
	nodeIP                string
	podCIDR               string
	// host is the directory of the host's /proc and /sys; empty for "/".
	host string
}

// noCopy makes go vet refuse copies of Options, into which the rows of its table point.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Manifests are the settings of the manifest sources.
type Manifests struct {
	// Path is a directory or a file; empty for none.
	Path      string
	FileCheck time.Duration
	// URL is empty for none.
	URL string
	// OCI are references of artifacts.
	OCI       []string
	Keys      VerifyKeys
	Header    http.Header
	CAFile    string
	HTTPCheck time.Duration
	// Mode is strict, warn or ignore: how to treat unknown and duplicate fields.
	Mode string

	headers []string
}

// RedactedURL returns the URL without possible secrets: user, password and query.
func (m Manifests) RedactedURL() string {
	u, err := url.Parse(m.URL)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// Runtime are the settings of the container runtime.
type Runtime struct {
	// Endpoint is empty to detect a runtime, or to start a private one.
	Endpoint       string
	RequestTimeout time.Duration
	// PauseImage is the sandbox image of a private containerd; empty leaves
	// containerd's own choice.
	PauseImage string
	// CNIConfDir is the directory in which a private containerd looks for a network
	// configuration.
	CNIConfDir string
	// ParallelPulls is the maximum number of parallel image pulls; 0 for the default.
	ParallelPulls int
	// Archives is the directory of image archives.
	Archives string
	// Providers is the config file or directory of credential provider plugins, empty
	// for none; ProvidersBin is the directory of the plugins.
	Providers, ProvidersBin string
	// RestartCap is the maximum crash-loop back-off.
	RestartCap time.Duration

	// serialize pulls one image at a time.
	serialize bool
}

// Network are the settings of the node's addresses and of DNS in pods.
type Network struct {
	// NodeIPs are the node's addresses, the primary one first. If empty they are
	// detected, with IPv6 first if IPv6First is set.
	NodeIPs   []netip.Addr
	IPv6First bool
	// ClusterDNS and ClusterDomain are empty without a cluster.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is empty for none.
	ResolvConf string
	// PodCIDRs are the ranges of pods in the network of a private containerd, at most one of each
	// family; empty for podstead's choice.
	PodCIDRs []netip.Prefix
}

// Paths are the directories of the daemon, all absolute.
type Paths struct {
	Root, PodLogs, ContainerLogs string
	// DevicePlugins has the registration socket of device plugins.
	DevicePlugins string
	// PluginRegistry has the sockets of plugins that wait to be asked for their registration.
	PluginRegistry string
	// devicePluginsSet, pluginRegistrySet: the directory is no default.
	devicePluginsSet, pluginRegistrySet bool
}

// RequiresDevicePlugins reports whether the directory of device plugins was set: the daemon does
// not start without its registration socket.
func (p Paths) RequiresDevicePlugins() bool { return p.devicePluginsSet }

// RequiresPluginRegistry reports whether the directory of plugins that register was set.
func (p Paths) RequiresPluginRegistry() bool { return p.pluginRegistrySet }

// API are the settings of the API socket and the health port.
type API struct {
	Socket string
	// HealthAddress is host:port; empty for none.
	HealthAddress string
	// StreamIdle is the idle timeout of exec, attach and port-forward sessions; 0 for
	// none.
	StreamIdle time.Duration
}

// Log are the settings of the log.
type Log struct {
	// Format is auto, text or json.
	Format string
	// Debug enables debug messages.
	Debug bool
}

// The defaults; those of the kubelet where it has the setting and the default is safe.
const (
	DefaultManifestPath  = "/etc/pods"
	DefaultRoot          = "/var/lib/podstead"
	DefaultSocket        = "/run/podstead/podstead.sock"
	DefaultPodLogs       = "/var/log/pods"
	DefaultContainerLogs = "/var/log/containers"
	DefaultResolvConf    = "/etc/resolv.conf"
)

// groups are all settings, in the order of the help and of its groups.
func (o *Options) groups() []group {
	return []group{
		{"Configuration files", o.fileSettings()},
		{"Manifests", o.Manifests.settings()},
		{"Container runtime and images", o.runtimeSettings()},
		{"Network", o.networkSettings()},
		{"Resources of the node", slices.Concat(o.Cgroups.settings(), o.CPUs.settings(), o.MemoryManager.settings(),
			o.Memory.settings(), o.Topology.settings())},
		{"Name and directories", o.pathSettings()},
		{"API", slices.Concat(o.apiSettings(), o.remoteSettings())},
		{"Pods", o.Policy.settings()},
		{"Garbage collection and logs of containers", o.Garbage.settings()},
		{"Updates and rollbacks", slices.Concat(o.AutoUpdate.settings(), o.Rollouts.settings())},
		{"Statistics and shutdown", slices.Concat(o.Stats.settings(), o.Tracing.settings(), o.Shutdown.settings())},
		{"Cluster", o.clusterSettings()},
		{"Eviction", o.Eviction.settings()},
		{"Process", o.processSettings()},
	}
}

func (o *Options) processSettings() []setting {
	return []setting{
		{flag: "runonce", without: "is about one run: in a file it would end every start of the service",
			value: boolean(&o.RunOnce, false),
			help:  "start every pod, wait until each is running or has failed, report the result and exit; pods keep running"},
		{flag: "log-format", own: "logFormat",
			value: choice(&o.Log.Format, "auto", "=%q: must be auto, text or json", "auto", "text", "json"),
			help:  "log format: text, json, or auto (text, colored on a terminal)"},
		{flag: "debug", own: "debug", value: boolean(&o.Log.Debug, false), help: "enable debug logging"},
	}
}

// check validates settings that depend on one another or on the host, and sets derived values.
func (o *Options) check() (notices []string) {
	t := o.table
	notices = o.clusterNotices()
	if o.PodDNS.mode == string(PodDNSAlways) && len(o.Network.ClusterDNS) > 0 {
		notices = append(notices, "--pod-dns=always (podDNS) has no effect with --cluster-dns (clusterDNS), which pods get "+
			"instead")
	}
	notices = slices.Concat(notices, o.Cgroups.unused(), o.MemoryManager.unused(), o.Topology.unused(),
		o.maskedPodCIDRs(), o.Manifests.unused())
	o.Manifests.check(t)
	o.Runtime.check(t)
	o.checkPaths(t)
	o.Eviction.check(t)
	o.Shutdown.check(t)
	o.Remote.check(t, o.joins())
	o.checkCluster(t)
	o.Garbage.check(t)
	o.Memory.check(t)
	o.CPUs.check(t, &o.Cgroups)
	o.Cgroups.check(t, o.host)
	o.Memory.checkHost(t, o.host)
	o.CPUs.checkHost(t, o.host, &o.Cgroups)
	o.checkMemoryManager(t)
	o.Topology.check(t, &o.CPUs, o.host)
	o.checkReservations(t)
	if o.joins() && o.Remote.Address != "" && o.Remote.ClientCAFile == "" {
		notices = append(notices, "without --client-ca-file the API server cannot authenticate to this node: kubectl logs, "+
			"exec and port-forward through the cluster fail; set it to the CA of the cluster's client certificates")
	}
	if o.MemoryManager.notice != "" {
		notices = append(notices, o.MemoryManager.notice)
	}
	return notices
}

// MachineID returns the machine ID from the first file that contains one.
func MachineID(files ...string) (string, bool) {
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil {
			if id := strings.TrimSpace(string(data)); id != "" && id != "uninitialized" {
				return id, true
			}
		}
	}
	return "", false
}
