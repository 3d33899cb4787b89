package config

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/node/devices"
	"github.com/podstead/podstead/node/plugins"
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

	configFile  string
	configDir   string
	configFiles []string
	headers     []string
	healthPort  int
	healthHost  string
	validation  string
	nodeIP      string
	podCIDR     string
	// host is the directory of the host's /proc and /sys; empty for "/".
	host string
}

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
	Mode      manifest.Mode
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

	defaultCheck          = 20 * time.Second
	defaultRequestTimeout = 2 * time.Minute
	defaultHealthHost     = "127.0.0.1"
	defaultHealthPort     = 10248
	defaultRestartCap     = 5 * time.Minute
	defaultStreamIdle     = 4 * time.Hour
)

// AddFlags declares the flags of run. Those that the kubelet has carry its names.
func (o *Options) AddFlags(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.configFile, "config", DefaultConfigFile, "configuration `file`: a KubeletConfiguration (v1beta1), a PodsteadConfiguration, or both; flags override it; the default is read if it exists; empty for none")
	f.StringVar(&o.configDir, "config-dir", DefaultConfigDir, "`directory` of drop-in configuration files (*.conf), which override --config in the order of their names; the default is read if it exists, and only with the default of --config")
	f.StringVar(&o.Manifests.Path, "pod-manifest-path", DefaultManifestPath, "`directory` or file of pod manifests; empty for none")
	f.DurationVar(&o.Manifests.FileCheck, "file-check-frequency", defaultCheck, "`interval` of full rescans of --pod-manifest-path; changes are also detected immediately")
	f.StringVar(&o.Manifests.URL, "manifest-url", "", "`URL` of pod manifests")
	f.StringArrayVar(&o.headers, "manifest-url-header", nil, "HTTP header of requests to --manifest-url, as `name:value`; can be repeated")
	f.StringVar(&o.Manifests.CAFile, "manifest-url-ca-file", "", "PEM `file` of certificate authorities for --manifest-url, instead of the system's")
	f.StringArrayVar(&o.Manifests.OCI, "manifest-oci", nil, "OCI artifact of pod manifests, as `registry/repository:tag`; can be repeated")
	f.DurationVar(&o.Manifests.HTTPCheck, "http-check-frequency", defaultCheck, "`interval` of requests to --manifest-url, and for the digest of each --manifest-oci")
	o.Manifests.Keys.addFlags(f)
	f.StringVar(&o.validation, "manifest-validation", string(manifest.ModeStrict), "how to treat unknown and duplicate fields of manifests: strict, warn or ignore")
	f.StringVar(&o.Runtime.Endpoint, "container-runtime-endpoint", "", "CRI `socket` of the container runtime; if empty, containerd, CRI-O or cri-dockerd is detected, or a private containerd is started")
	f.DurationVar(&o.Runtime.RequestTimeout, "runtime-request-timeout", defaultRequestTimeout, "`timeout` of requests to the container runtime, except image pulls")
	f.DurationVar(&o.API.StreamIdle, "streaming-connection-idle-timeout", defaultStreamIdle, "idle `timeout` of exec, attach and port-forward sessions; 0 for none")
	f.DurationVar(&o.Runtime.RestartCap, "max-container-restart-period", defaultRestartCap, "maximum crash-loop back-off `time` of a container, 1s to 5m")
	f.StringVar(&o.Runtime.PauseImage, "pod-infra-container-image", "", "sandbox `image` of a private containerd (default: containerd's own)")
	f.StringVar(&o.Runtime.Providers, "image-credential-provider-config", "", "CredentialProviderConfig `file`, or a directory of them, of the image credential provider plugins")
	f.StringVar(&o.Runtime.ProvidersBin, "image-credential-provider-bin-dir", "", "`directory` of the image credential provider plugins")
	o.Registries.addFlags(f)
	f.StringVar(&o.Runtime.Archives, "image-archives-dir", "", "`directory` of image archives, which are loaded into the runtime and used before a pull (default: image-archives in --root-dir)")
	f.StringVar(&o.Runtime.CNIConfDir, "cni-conf-dir", "/etc/cni/net.d", "`directory` of CNI configurations for a private containerd; if it has none, a network is created")
	f.StringVar(&o.podCIDR, "pod-cidr", "", "address `range` of pods in the network that is created for a private containerd, or one of IPv4 and one of IPv6 separated by a comma (default: a free one from 10.88.0.0/16 to 10.119.0.0/16)")
	f.StringVar(&o.nodeIP, "node-ip", "", "`address` of the node, or one IPv4 and one IPv6 address separated by a comma, the primary one first; :: prefers IPv6 (default: the address of the default route)")
	f.StringSliceVar(&o.Network.ClusterDNS, "cluster-dns", nil, "`addresses` of the DNS servers for pods with dnsPolicy ClusterFirst (default: the host's)")
	f.StringVar(&o.Network.ClusterDomain, "cluster-domain", "", "DNS `domain` of services, and of pods with a subdomain")
	f.StringVar(&o.Network.ResolvConf, "resolv-conf", DefaultResolvConf, "resolver configuration `file` for the DNS of pods; empty for none")
	o.PodDNS.addFlags(f)
	o.Cgroups.addFlags(f)
	o.CPUs.addFlags(f)
	o.MemoryManager.addFlags(f)
	o.Topology.addFlags(f)
	f.StringVar(&o.Node, "hostname-override", "", "node `name` (default: the hostname at the first start, which is then kept)")
	f.StringVar(&o.Paths.Root, "root-dir", DefaultRoot, "`directory` of the daemon's persistent state")
	f.StringVar(&o.Paths.PodLogs, "pod-logs-dir", DefaultPodLogs, "`directory` of container logs")
	f.StringVar(&o.Paths.ContainerLogs, "container-logs-dir", DefaultContainerLogs, "`directory` of symlinks to container logs, for log collectors")
	f.StringVar(&o.Paths.DevicePlugins, "device-plugin-dir", "", "`directory` of the registration socket of device plugins, and of their sockets (default: "+devices.DefaultDir+"; with another --root-dir, device-plugins in it)")
	f.StringVar(&o.Paths.PluginRegistry, "plugin-registration-dir", "", "`directory` of the sockets with which plugins register (default: "+plugins.DefaultDir+"; with another --root-dir, plugins_registry in it)")
	f.StringVar(&o.API.Socket, "api-socket", DefaultSocket, "`path` of the unix socket of the API; its owner and group have access")
	f.StringVar(&o.healthHost, "healthz-bind-address", defaultHealthHost, "`address` of the healthz server")
	f.IntVar(&o.healthPort, "healthz-port", defaultHealthPort, "`port` of the healthz server; 0 for none")
	o.Remote.addFlags(f)
	o.Policy.addFlags(f)
	o.Garbage.addFlags(f)
	o.AutoUpdate.addFlags(f)
	o.Rollouts.addFlags(f)
	o.Stats.addFlags(f)
	o.Shutdown.addFlags(f)
	o.Cluster.addFlags(f)
	o.Eviction.addFlags(f)
	f.BoolVar(&o.RunOnce, "runonce", false, "start every pod, wait until each is running or has failed, report the result and exit; pods keep running")
	f.StringVar(&o.Log.Format, "log-format", "auto", "log format: text, json, or auto (text, colored on a terminal)")
	f.BoolVar(&o.Log.Debug, "debug", false, "enable debug logging")
	addKubeletFlags(f)
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.DefValue == "[]" && flag.Value.Type() == "stringToString" {
			flag.DefValue = "" // the help shows no empty default, as for other lists
		}
	})
}

// Complete reads the configuration files and validates all settings. The notices are log
// messages about settings that have no effect. An error in a file is a FileError.
func (o *Options) Complete(f *pflag.FlagSet) (notices []string, err error) {
	if o.Manifests.Header, err = parseHeaders(o.headers); err != nil {
		return nil, err
	}
	files, err := o.readConfig(f)
	if err != nil {
		return nil, err
	}
	if err := checkMasked(files, f); err != nil {
		return nil, err
	}
	o.configFiles = files.files.Files()
	if err := applyOwn(f, files.own); err != nil {
		return nil, &FileError{err}
	}
	if o.LocalDevices, err = parseLocalDevices(files.own, true); err != nil {
		return nil, &FileError{err}
	}
	o.Remote.enabled = o.Remote.TokenFile != ""
	o.merge(files.config, f)
	inert, err := o.applyKubeletFlags(f)
	if err != nil {
		return nil, err
	}
	notices, err = o.validate(f)
	return slices.Concat(files.fileNotices(), inert, notices), files.locate(f, err)
}

// validate validates the settings and sets derived values.
func (o *Options) validate(f *pflag.FlagSet) (notices []string, err error) {
	if unused := slices.Concat(o.Cluster.unused(f), o.Remote.Reviews.set); o.Cluster.Kubeconfig == "" && len(unused) > 0 {
		notices = append(notices, fmt.Sprintf("these settings have no effect without --kubeconfig: %s", strings.Join(unused, ", ")))
	}
	if o.PodDNS.mode == string(PodDNSAlways) && len(o.Network.ClusterDNS) > 0 {
		notices = append(notices, "--pod-dns=always (podDNS) has no effect with --cluster-dns (clusterDNS), which pods get instead")
	}
	notices = slices.Concat(notices, o.Cgroups.unused(), o.MemoryManager.unused(), o.Topology.unused(), o.maskedPodCIDRs())
	if o.Manifests.Mode, err = manifest.ParseMode(o.validation); err != nil {
		return nil, fmt.Errorf("--manifest-validation: %w", err)
	}
	unusedKeys, err := o.Manifests.Keys.check(&o.Manifests)
	if err != nil {
		return nil, err
	}
	notices = append(notices, unusedKeys...)
	if err := o.Eviction.check(); err != nil {
		return nil, err
	}
	if err := o.Shutdown.check(f); err != nil {
		return nil, err
	}
	if err := o.Remote.check(f, o.Cluster.Kubeconfig != ""); err != nil {
		return nil, err
	}
	if o.Cluster.Kubeconfig != "" && o.Remote.Address != "" && o.Remote.ClientCAFile == "" {
		notices = append(notices, "without --client-ca-file the API server cannot authenticate to this node: kubectl logs, exec and port-forward through the cluster fail; set it to the CA of the cluster's client certificates")
	}
	err = o.check()
	if o.MemoryManager.notice != "" {
		notices = append(notices, o.MemoryManager.notice)
	}
	return notices, err
}

// checkMasked returns an error for a secret that was masked in /configz, from which the file
// was made. A flag for the same setting overrides it.
func checkMasked(files *settings, f *pflag.FlagSet) error {
	const remedy = "is masked, as /configz shows secrets; replace it by the real value"
	c, at := files.config, files.kubelet.Position
	if kubeletconfig.IsMasked(c.StaticPodURL) && !f.Changed("manifest-url") {
		return &FileError{fmt.Errorf("%s: staticPodURL: a part %s", at("staticPodURL"), remedy)}
	}
	for name, values := range c.StaticPodURLHeader {
		if slices.ContainsFunc(values, kubeletconfig.IsMasked) && !f.Changed("manifest-url-header") {
			return &FileError{fmt.Errorf("%s: staticPodURLHeader.%s: the value %s", at("staticPodURLHeader."+name), name, remedy)}
		}
	}
	return nil
}

// merge applies the settings of the file that no flag sets.
func (o *Options) merge(c *kubeletconfig.Config, f *pflag.FlagSet) {
	take := func(flag string, set bool, apply func()) {
		if set && !f.Changed(flag) {
			apply()
		}
	}
	take("pod-manifest-path", c.StaticPodPath != "", func() { o.Manifests.Path = c.StaticPodPath })
	take("manifest-url", c.StaticPodURL != "", func() { o.Manifests.URL = c.StaticPodURL })
	take("manifest-url-header", c.StaticPodURLHeader != nil, func() { o.Manifests.Header = c.StaticPodURLHeader })
	take("file-check-frequency", c.FileCheckFrequency != nil, func() { o.Manifests.FileCheck = *c.FileCheckFrequency })
	take("http-check-frequency", c.HTTPCheckFrequency != nil, func() { o.Manifests.HTTPCheck = *c.HTTPCheckFrequency })
	take("container-runtime-endpoint", c.ContainerRuntimeEndpoint != "", func() { o.Runtime.Endpoint = c.ContainerRuntimeEndpoint })
	take("runtime-request-timeout", c.RuntimeRequestTimeout != nil, func() { o.Runtime.RequestTimeout = *c.RuntimeRequestTimeout })
	take("streaming-connection-idle-timeout", c.StreamingConnectionIdleTimeout != nil, func() { o.API.StreamIdle = *c.StreamingConnectionIdleTimeout })
	take("max-container-restart-period", c.MaxContainerRestartPeriod != nil, func() { o.Runtime.RestartCap = *c.MaxContainerRestartPeriod })
	take("cluster-dns", c.ClusterDNS != nil, func() { o.Network.ClusterDNS = c.ClusterDNS })
	take("cluster-domain", c.ClusterDomain != "", func() { o.Network.ClusterDomain = c.ClusterDomain })
	take("pod-cidr", c.PodCIDR != "", func() { o.podCIDR = c.PodCIDR })
	take("resolv-conf", c.ResolvConf != nil, func() { o.Network.ResolvConf = *c.ResolvConf })
	take("pod-logs-dir", c.PodLogsDir != "", func() { o.Paths.PodLogs = c.PodLogsDir })
	take("healthz-bind-address", c.HealthzBindAddress != "", func() { o.healthHost = c.HealthzBindAddress })
	take("healthz-port", c.HealthzPort != nil, func() { o.healthPort = *c.HealthzPort })
	o.Remote.merge(&c.Remote, f)
	o.Policy.merge(c, f)
	o.Cgroups.merge(&c.Cgroups, take)
	o.CPUs.merge(&c.CPUs, take)
	o.MemoryManager.merge(&c.MemoryManager, take)
	o.Memory.merge(&c.Memory)
	o.Topology.merge(&c.Topology, take)
	o.Garbage.merge(c, f)
	o.Stats.merge(c, f)
	o.Shutdown.merge(c, f)
	o.Eviction.merge(&c.Eviction, f)
	o.Cluster.merge(c, f)
	o.Tracing.merge(&c.Tracing)
	if c.MaxParallelImagePulls != nil {
		o.Runtime.ParallelPulls = *c.MaxParallelImagePulls
	}
}

// parseHeaders parses name:value pairs.
func parseHeaders(pairs []string) (http.Header, error) {
	h := http.Header{}
	for _, p := range pairs {
		name, value, found := strings.Cut(p, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			// The value may be a secret and is not repeated.
			return nil, fmt.Errorf("--manifest-url-header: must be name:value, such as X-Token:abc")
		}
		h.Add(name, value)
	}
	return h, nil
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
