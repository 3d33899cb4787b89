package kubeletconfig

import (
	"time"

	"github.com/podstead/podstead/config/configfile"
)

// Config holds the supported fields of a KubeletConfiguration, one field each. A nil pointer, nil map or empty string means that the file
// does not set the field.
type Config struct {
	StaticPodPath      string
	StaticPodURL       string
	StaticPodURLHeader map[string][]string

	FileCheckFrequency *time.Duration
	HTTPCheckFrequency *time.Duration

	ContainerRuntimeEndpoint string
	RuntimeRequestTimeout    *time.Duration
	PodLogsDir               string
	// MaxParallelImagePulls is 1 if serializeImagePulls is true.
	MaxParallelImagePulls *int
	// ImagePullCredentialsVerificationPolicy is empty for the default, and
	// PreloadedImagesVerificationAllowlist is its list of image names.
	ImagePullCredentialsVerificationPolicy string
	PreloadedImagesVerificationAllowlist   []string
	// MaxContainerRestartPeriod is the maximum crash-loop back-off.
	MaxContainerRestartPeriod *time.Duration

	SeccompDefault       *bool
	AllowedUnsafeSysctls []string
	MaxPods, PodsPerCore *int
	ClusterDNS           []string
	ClusterDomain        string
	// PodCIDR is one range, or one of each family separated by a comma; empty if not set.
	PodCIDR string
	// ResolvConf is nil if not set, and empty for none.
	ResolvConf    *string
	Cgroups       Cgroups
	CPUs          CPUs
	MemoryManager MemoryManager
	Memory        Memory
	Topology      Topology

	Garbage  Garbage
	Shutdown Shutdown
	Eviction Eviction

	Remote Remote
	Node   Node
	Rates  Rates

	Tracing Tracing

	VolumeStatsAggPeriod *time.Duration

	StreamingConnectionIdleTimeout *time.Duration

	HealthzBindAddress string
	HealthzPort        *int

	// Ignored are the fields that the file sets and podstead does not support, in
	// alphabetical order.
	Ignored []string
	// Unsupported are errors about fields of the node's resources that podstead does not
	// support. They are none of Parse, because another file may override the field.
	Unsupported []error
}

// Garbage are the fields about image and log garbage collection.
type Garbage struct {
	// ContainerLogMaxSize is a quantity of bytes.
	ContainerLogMaxSize  string
	ContainerLogMaxFiles *int
	// The thresholds are in percent of the image file system.
	ImageGCHighThresholdPercent, ImageGCLowThresholdPercent *int
	ImageMinimumGCAge, ImageMaximumGCAge                    *time.Duration
}

// Kind is the kind of the document.
var Kind = configfile.Kind{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration"}

// Parse validates every field of a document separately, so that all errors are reported
// together; each names the file and line. Relative paths are relative to the file that sets
// them, as in the kubelet. hint returns what to add to the error about an unknown field; nil
// for nothing.
func Parse(doc *configfile.Document, hint func(name string) string) (*Config, []error) {
	p := parser{cfg: &Config{}, doc: doc, hint: hint}
	for _, name := range sortedKeys(doc.Fields) {
		p.field(name, doc.Fields[name])
	}
	p.checkAllowlist()
	p.checkMemory()
	return p.cfg, p.errs
}
