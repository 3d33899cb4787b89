package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// kubeletFlag is a flag of a kubelet, of this or an earlier version, that podstead accepts so
// that the command line of an existing unit starts. It is not in the help.
type kubeletFlag struct {
	name string
	// boolean is set for a flag that can be given without a value.
	boolean bool
	// same are values that describe what podstead does anyway: there is no warning.
	same []string
	// refused are values, "" for any that is not in same, that would be unsafe or surprising
	// to ignore, each with what to do.
	refused map[string]string
	// check rejects values that must not be ignored; nil for none.
	check func(value string) error
	// apply honours the flag; nil if it has no effect.
	apply func(o *Options, f *pflag.FlagSet, value string) error
	// why says why it has no effect or, if it is honoured, what it means.
	why string
}

// The reasons that several flags share.
const (
	whyCgroups     = "podstead moves no process of the host into another cgroup; configure the service of the process"
	whyCAdvisor    = "podstead does not contain cAdvisor, and measures on request"
	whyLog         = "the log goes to standard error, in the format of --log-format"
	whyRuntime     = "the container runtime configures the pod network"
	whyDocker      = "Kubernetes 1.24 removed dockershim; use --container-runtime-endpoint with cri-dockerd"
	whyRegistry    = "the number of image pulls at once is limited instead (maxParallelImagePulls)"
	whyNoInterface = "podstead has no such feature"
)

// anyOther refuses every value that is not the same as what podstead does.
func anyOther(remedy string) map[string]string { return map[string]string{"": remedy} }

// inertFlags are accepted.
var inertFlags = slices.Concat(currentFlags, cadvisorFlags, removedFlags)

// currentFlags are flags of the kubelet 1.36.
var currentFlags = []kubeletFlag{
	{name: "serialize-image-pulls", boolean: true, apply: serializePulls, why: "pulls one image at a time"},
	{name: "node-status-update-frequency", apply: statusUpdate, why: "is the field nodeStatusUpdateFrequency"},
	{name: "node-status-max-images", apply: statusImages, why: "is the field nodeStatusMaxImages"},
	{name: "v", apply: verbosity, why: "4 and more is --debug"},
	{name: "logging-format", apply: loggingFormat, why: "is --log-format"},

	{name: "anonymous-auth", boolean: true, same: []string{"false"}, why: "clients without a certificate or token have no access"},
	{name: "cgroups-per-qos", boolean: true, same: []string{"true"}, refused: anyOther("each pod has a cgroup in that of its QoS class; remove the flag")},
	{name: "contention-profiling", boolean: true, same: []string{"false"}, why: whyNoInterface},
	{name: "cpu-manager-reconcile-period", why: "the CPUs of containers are set when something changes"},
	{name: "enable-controller-attach-detach", boolean: true, why: "podstead attaches no volumes of storage drivers"},
	{name: "enable-server", boolean: true, same: []string{"true"}, refused: map[string]string{"false": "ports would be open; use --port=0 --read-only-port=0 --healthz-port=0"}},
	{name: "exit-on-lock-contention", boolean: true, same: []string{"false"}, refused: map[string]string{"true": "podstead would not exit; it locks --root-dir and --cgroup-root itself, so that two daemons never run the same pods; remove the flag"}},
	{name: "experimental-allocatable-ignore-eviction", boolean: true, same: []string{"false"}, why: "the thresholds of hard eviction are not available to pods"},
	{name: "experimental-mounter-path", same: []string{""}, why: "podstead mounts volumes itself"},
	{name: "fail-cgroupv1", boolean: true, same: []string{"false"}, why: "podstead supports cgroup v1"},
	{name: "fail-swap-on", boolean: true, apply: failSwapOn, why: "is the field failSwapOn"},
	{name: "feature-gates", same: []string{""}, check: featureGates, why: "podstead has no such feature gates"},
	{name: "hairpin-mode", why: whyRuntime},
	{name: "image-service-endpoint", apply: imageEndpoint, why: "must be the same as --container-runtime-endpoint"},
	{name: "kernel-memcg-notification", boolean: true, same: []string{"false"}, why: "memory is measured as often as its trend requires"},
	{name: "kube-api-content-type", why: "podstead and the API server agree on one"},
	{name: "kubelet-cgroups", same: []string{""}, why: whyCgroups},
	{name: "local-storage-capacity-isolation", boolean: true, same: []string{"true"}, refused: anyOther("limits of ephemeral storage are enforced; remove the flag")},
	{name: "lock-file", same: []string{""}, why: "podstead locks --root-dir and --cgroup-root itself"},
	{name: "log-flush-frequency", why: whyLog},
	{name: "log-json-info-buffer-size", why: whyLog},
	{name: "log-json-split-stream", boolean: true, same: []string{"false"}, why: whyLog},
	{name: "log-text-info-buffer-size", why: whyLog},
	{name: "log-text-split-stream", boolean: true, same: []string{"false"}, why: whyLog},
	{name: "make-iptables-util-chains", boolean: true, why: "podstead installs one rule of its own, which protects 127.0.0.1"},
	{name: "max-open-files", why: "LimitNOFILE= of the unit sets the limit"},
	{name: "oom-score-adj", same: []string{"-999"}, why: "podstead always uses -999"},
	{name: "protect-kernel-defaults", boolean: true, same: []string{"true"}, why: "podstead changes no kernel parameters; podstead check reports them"},
	{name: "qos-reserved", same: []string{""}, refused: anyOther("memory is not reserved by QoS class; remove the flag")},
	{name: "registry-burst", why: whyRegistry},
	{name: "registry-qps", same: []string{"0"}, why: whyRegistry},
	{name: "runtime-cgroups", same: []string{""}, why: whyCgroups},
	{name: "sync-frequency", why: "pods are synced when something changes"},
	{name: "system-cgroups", same: []string{""}, why: whyCgroups},
	{name: "vmodule", same: []string{""}, why: whyLog},
	{name: "volume-plugin-dir", same: []string{""}, why: "podstead runs no FlexVolume plugins"},
}

// cadvisorFlags are the flags that the kubelet has by way of cAdvisor.
var cadvisorFlags = cadvisor("application-metrics-count-limit", "boot-id-file", "container-hints", "containerd", "containerd-namespace",
	"event-storage-age-limit", "event-storage-event-limit", "global-housekeeping-interval", "housekeeping-interval", "machine-id-file",
	"storage-driver-buffer-duration", "storage-driver-db", "storage-driver-host", "storage-driver-password", "storage-driver-table", "storage-driver-user",
	"enable-load-reader=", "log-cadvisor-usage=", "storage-driver-secure=")

// cadvisor returns the flags of these names; those with a = are boolean.
func cadvisor(names ...string) (flags []kubeletFlag) {
	for _, name := range names {
		name, boolean := strings.CutSuffix(name, "=")
		flags = append(flags, kubeletFlag{name: name, boolean: boolean, why: whyCAdvisor})
	}
	return flags
}

// removedFlags are flags that kubelets before 1.36 had and units still have.
var removedFlags = []kubeletFlag{
	{name: "allow-privileged", boolean: true, why: "pods may be privileged; Kubernetes 1.15 removed the flag"},
	{name: "alsologtostderr", boolean: true, why: whyLog},
	{name: "api-servers", refused: map[string]string{"": "podstead would join no cluster; use --kubeconfig"}},
	{name: "azure-container-registry-config", why: "use --image-credential-provider-config"},
	{name: "cadvisor-port", same: []string{"0"}, why: whyCAdvisor},
	{name: "chaos-chance", same: []string{"0"}, why: whyNoInterface},
	{name: "cloud-config", same: []string{""}, why: "Kubernetes has no cloud providers of its own any more"},
	{name: "cni-bin-dir", why: whyRuntime},
	{name: "cni-cache-dir", why: whyRuntime},
	{name: "container-runtime", same: []string{"remote"}, refused: map[string]string{"docker": whyDocker, "rkt": "use --container-runtime-endpoint"}, why: "each runtime speaks CRI"},
	{name: "docker-endpoint", why: whyDocker},
	{name: "dynamic-config-dir", refused: map[string]string{"": "the settings of the cluster would not apply; Kubernetes 1.24 removed dynamic configuration; use --config"}},
	{name: "enable-cadvisor-json-endpoints", boolean: true, same: []string{"false"}, why: whyCAdvisor},
	{name: "experimental-bootstrap-kubeconfig", refused: map[string]string{"": "use --bootstrap-kubeconfig"}},
	{name: "experimental-check-node-capabilities-before-mount", boolean: true, why: whyNoInterface},
	{name: "experimental-dockershim-root-directory", why: whyDocker},
	{name: "experimental-kernel-memcg-notification", boolean: true, why: "memory is measured as often as its trend requires"},
	{name: "host-ipc-sources", why: "each source may use the host's namespaces"},
	{name: "host-network-sources", why: "each source may use the host's namespaces"},
	{name: "host-pid-sources", why: "each source may use the host's namespaces"},
	{name: "image-pull-progress-deadline", why: whyDocker},
	{name: "iptables-drop-bit", why: "podstead installs no such rule"},
	{name: "iptables-masquerade-bit", why: "podstead installs no such rule"},
	{name: "keep-terminated-pod-volumes", boolean: true, same: []string{"false"}, why: "the volumes of an ended pod are removed"},
	{name: "log-backtrace-at", why: whyLog},
	{name: "log-dir", why: whyLog},
	{name: "log-file", why: whyLog},
	{name: "log-file-max-size", why: whyLog},
	{name: "logtostderr", boolean: true, same: []string{"true"}, why: whyLog},
	{name: "master-service-namespace", why: whyNoInterface},
	{name: "network-plugin", same: []string{"", "cni"}, refused: map[string]string{"kubenet": "pods would be in another network; Kubernetes 1.24 removed kubenet; configure a CNI network for the runtime"}, why: whyRuntime},
	{name: "network-plugin-mtu", same: []string{"0"}, why: whyRuntime},
	{name: "non-masquerade-cidr", why: whyRuntime},
	{name: "redirect-container-streaming", boolean: true, same: []string{"false"}, why: "sessions pass through podstead"},
	{name: "register-schedulable", boolean: true, same: []string{"true"}, refused: map[string]string{"false": "the cluster would bind pods to the node; use --register-with-taints=node.kubernetes.io/unschedulable=:NoSchedule"}},
	{name: "require-kubeconfig", boolean: true, refused: map[string]string{"true": "podstead would run without a cluster; use --kubeconfig"}, same: []string{"false"}},
	{name: "seccomp-profile-root", why: "profiles are below seccomp in --root-dir"},
	{name: "skip-headers", boolean: true, why: whyLog},
	{name: "skip-log-headers", boolean: true, why: whyLog},
	{name: "add-dir-header", boolean: true, why: whyLog},
	{name: "one-output", boolean: true, why: whyLog},
	{name: "show-hidden-metrics-for-version", same: []string{""}, why: whyNoInterface},
	{name: "stderrthreshold", why: whyLog},
}

// inertValue is the text of a kubeletFlag.
type inertValue struct {
	text    string
	boolean bool
}

func (v *inertValue) String() string { return v.text }

// Set checks only booleans: the format of the others does not matter.
func (v *inertValue) Set(text string) error {
	if v.boolean {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("must be true or false")
		}
		text = strconv.FormatBool(b)
	}
	v.text = text
	return nil
}

func (v *inertValue) Type() string {
	if v.boolean {
		return "bool"
	}
	return "string"
}

// addKubeletFlags declares the flags of a kubelet that are not podstead's, hidden. Like the
// kubelet it reads underscores in the names of flags as dashes.
func addKubeletFlags(f *pflag.FlagSet) {
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, k := range inertFlags {
		short := ""
		if k.name == "v" {
			short = "v"
		}
		flag := f.VarPF(&inertValue{boolean: k.boolean}, k.name, short, k.why)
		if flag.Hidden = true; k.boolean {
			flag.NoOptDefVal = "true"
		}
	}
}

// applyKubeletFlags honours those that it can, and returns a notice about each that has no
// effect. The error is for those that must not be ignored.
func (o *Options) applyKubeletFlags(f *pflag.FlagSet) (notices []string, err error) {
	var errs []error
	for _, k := range inertFlags {
		flag := f.Lookup(k.name)
		if !flag.Changed {
			continue
		}
		value := flag.Value.String()
		remedy, refused := k.refused[value]
		if other := k.refused[""]; other != "" && !refused && !slices.Contains(k.same, value) {
			remedy, refused = other, true
		}
		if k.check != nil {
			if err := k.check(value); err != nil {
				errs = append(errs, fmt.Errorf("--%s=%s: %w", k.name, value, err))
				continue
			}
		}
		switch {
		case refused:
			errs = append(errs, fmt.Errorf("--%s=%s: is not supported: %s", k.name, value, remedy))
		case k.apply != nil:
			if err := k.apply(o, f, value); err != nil {
				errs = append(errs, fmt.Errorf("--%s=%s: %w", k.name, value, err))
			}
		case !slices.Contains(k.same, value):
			notices = append(notices, fmt.Sprintf("--%s has no effect: %s", k.name, k.why))
		}
	}
	return notices, errors.Join(errs...)
}

// featureGates rejects the gate that has an effect, which only the configuration file sets.
func featureGates(value string) error {
	if strings.Contains(value, "MemoryQoS=true") {
		return errors.New("MemoryQoS is not supported as a flag; set featureGates: {MemoryQoS: true} in the configuration file")
	}
	return nil
}

// failSwapOn honours the flag with the field's meaning. The check is in checkHost.
func failSwapOn(o *Options, _ *pflag.FlagSet, value string) error {
	if o.Cgroups.failSwapOn = ""; value == "true" {
		o.Cgroups.failSwapOn = "--fail-swap-on"
	}
	return nil
}

func serializePulls(o *Options, _ *pflag.FlagSet, value string) error {
	if value == "true" {
		o.Runtime.ParallelPulls = 1
	} else if o.Runtime.ParallelPulls == 1 {
		o.Runtime.ParallelPulls = 0
	}
	return nil
}

func statusUpdate(o *Options, _ *pflag.FlagSet, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return errors.New("must be a duration, such as 10s")
	}
	o.Cluster.StatusUpdate = d
	o.Cluster.StatusReport = max(o.Cluster.StatusReport, d)
	return nil
}

func statusImages(o *Options, _ *pflag.FlagSet, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < -1 {
		return errors.New("must be a number of images, or -1 for no limit")
	}
	o.Cluster.Images = n
	return nil
}

// debugVerbosity is the verbosity from which a kubelet logs what helps to debug it.
const debugVerbosity = 4

func verbosity(o *Options, _ *pflag.FlagSet, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return errors.New("must be a number")
	}
	o.Log.Debug = o.Log.Debug || n >= debugVerbosity
	return nil
}

func loggingFormat(o *Options, f *pflag.FlagSet, value string) error {
	if value != "text" && value != "json" {
		return errors.New("must be text or json")
	}
	if !f.Changed("log-format") {
		o.Log.Format = value
	}
	return nil
}

// imageEndpoint accepts the runtime's endpoint: images of another service would be missing
// when containers start.
func imageEndpoint(o *Options, _ *pflag.FlagSet, value string) error {
	if value != "" && strings.TrimPrefix(value, "unix://") != strings.TrimPrefix(o.Runtime.Endpoint, "unix://") {
		return errors.New("is not supported: must be the same as --container-runtime-endpoint; remove the flag")
	}
	return nil
}
