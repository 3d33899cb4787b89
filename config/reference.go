package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Field is a field of the configuration file, for its documentation and its schema.
type Field struct {
	// Kind is the kind of the document, and Path the path in it.
	Kind, Path string
	// Flag is the flag with the same meaning, and Type the type of its value as pflag names
	// it; both are empty if there is none.
	Flag, Type string
	Usage      string
}

// flagless are the supported fields of a KubeletConfiguration that have no flag.
var flagless = map[string]string{
	"maxParallelImagePulls":                  "maximum number of image pulls at once (default 5)",
	"imagePullCredentialsVerificationPolicy": "with --kubeconfig, images that a pod of the cluster may use only with credentials of its own: NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify (default NeverVerifyPreloadedImages)",
	"preloadedImagesVerificationAllowlist":   "images for NeverVerifyAllowlistedImages, such as registry.example.com/team/app or registry.example.com/team/*",
	"tracing.endpoint":                       "HOST:PORT of an OpenTelemetry collector with OTLP over gRPC, without TLS (default localhost:4317)",
	"tracing.samplingRatePerMillion":         "how many of a million syncs of pods are traced (default 0)",
	"singleProcessOOMKill":                   "kill a single process instead of the whole container on an OOM",
	"nodeLeaseDurationSeconds":               "duration of the node lease in seconds (default 40)",
	"nodeStatusMaxImages":                    "maximum number of images in the node status; -1 for no limit (default 50)",
	"nodeStatusReportFrequency":              "interval of reporting a node status that has not changed (default 5m0s)",
	"nodeStatusUpdateFrequency":              "interval of computing the node status (default 10s)",
	"serializeImagePulls":                    "true pulls one image at a time, as maxParallelImagePulls: 1",
	"failSwapOn":                             "true rejects a node with swap (default false)",
	"memorySwap":                             "swapBehavior: NoSwap, or LimitedSwap, which lets containers of Burstable pods swap (cgroup v2; default NoSwap)",
	"featureGates":                           "only MemoryQoS: true throttles containers before their memory limit (cgroup v2)",
	"memoryThrottlingFactor":                 "with MemoryQoS, where between its memory request and limit a container is throttled (default 0.9)",
	"memoryReservationPolicy":                "with MemoryQoS, TieredReservation protects the memory that containers request from reclaim (default None)",
	"mergeDefaultEvictionSettings":           "keep the default thresholds of signals that evictionHard does not set",
}

// Fields returns the fields of the configuration file, sorted by kind and path.
func Fields() []Field {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&Options{}).AddFlags(f)
	var all []Field
	add := func(kind, path, flag string) {
		found := f.Lookup(flag)
		_, usage := pflag.UnquoteUsage(found)
		if found.DefValue != "" && found.DefValue != "[]" && found.DefValue != "false" && !strings.Contains(usage, "(default") {
			usage += " (default " + found.DefValue + ")"
		}
		all = append(all, Field{Kind: kind, Path: path, Flag: flag, Type: found.Value.Type(), Usage: usage})
	}
	for flag, path := range kubeletFields {
		add(kubeletconfig.Kind.Kind, path, flag)
	}
	for _, field := range ownFields {
		if field.flag == "" {
			all = append(all, Field{Kind: podsteadKind, Path: field.name, Usage: field.usage})
			continue
		}
		add(podsteadKind, field.name, field.flag)
	}
	for path, usage := range flagless {
		all = append(all, Field{Kind: kubeletconfig.Kind.Kind, Path: path, Usage: usage})
	}
	slices.SortFunc(all, func(a, b Field) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(strings.ToLower(a.Path), strings.ToLower(b.Path)))
	})
	return all
}

// WithoutField returns the flags of run without a field, and why they have none.
func WithoutField() map[string]string { return maps.Clone(withoutField) }

// Verdicts of a flag of a kubelet.
const (
	Honoured = "honoured"
	NoEffect = "no effect"
	Refused  = "refused"
)

// KubeletFlag is a flag of a kubelet that run accepts or refuses in addition to its own.
type KubeletFlag struct {
	Name    string
	Boolean bool
	// Verdict is Honoured, NoEffect or Refused; if Values is not empty, those are refused only.
	Verdict string
	Values  []string
	Why     string
	// Removed is set if the kubelet 1.36 does not have it any more.
	Removed bool
}

// KubeletFlags returns the flags of a kubelet that are not podstead's own.
func KubeletFlags() (flags []KubeletFlag) {
	for i, k := range inertFlags {
		flag := KubeletFlag{Name: k.name, Boolean: k.boolean, Verdict: NoEffect, Why: k.why, Removed: i >= len(currentFlags)+len(cadvisorFlags)}
		if k.apply != nil {
			flag.Verdict = Honoured
		}
		for _, value := range slices.Sorted(maps.Keys(k.refused)) {
			if value == "" {
				flag.Verdict, flag.Why = Refused, k.refused[value]
				if same := slices.DeleteFunc(slices.Clone(k.same), func(value string) bool { return value == "" }); len(same) > 0 {
					flag.Why = "unless `" + strings.Join(same, "` or `") + "`: " + flag.Why
				}
				continue
			}
			flag.Values = append(flag.Values, value)
			flag.Why = strings.TrimPrefix(flag.Why+"; `"+value+"` is refused: "+k.refused[value], "; ")
		}
		flags = append(flags, flag)
	}
	slices.SortFunc(flags, func(a, b KubeletFlag) int { return strings.Compare(a.Name, b.Name) })
	return flags
}
