package kubeletconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
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
	// MaxContainerRestartPeriod is the maximum crash-loop back-off.
	MaxContainerRestartPeriod *time.Duration

	SeccompDefault       *bool
	AllowedUnsafeSysctls []string
	MaxPods, PodsPerCore *int
	ClusterDNS           []string
	ClusterDomain        string
	// ResolvConf is nil if not set, and empty for none.
	ResolvConf *string
	Cgroups    Cgroups

	Garbage  Garbage
	Shutdown Shutdown
	Eviction Eviction

	Remote Remote
	Node   Node
	Rates  Rates

	VolumeStatsAggPeriod *time.Duration

	StreamingConnectionIdleTimeout *time.Duration

	HealthzBindAddress string
	HealthzPort        *int

	// Ignored are the fields that the file sets and podstead does not support, in
	// alphabetical order.
	Ignored []string
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

// maxFileSize is the maximum size of the file in bytes; a real one has a few kilobytes.
const maxFileSize = 1 << 20

// Read reads the file. Relative paths in it are relative to its directory, as in the kubelet.
// Unknown and duplicate fields are errors. All errors are returned together.
func Read(path string) (*Config, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read --config: %w", err)
	}
	if fi.Size() > maxFileSize {
		return nil, fmt.Errorf("--config %s has %d bytes, more than the maximum of %d", path, fi.Size(), maxFileSize)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read --config: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("failed to read --config: %w", err)
	}
	cfg, errs := parse(data, filepath.Dir(abs))
	if len(errs) > 0 {
		for i, e := range errs {
			errs[i] = fmt.Errorf("%s: %w", path, e)
		}
		return nil, errors.Join(errs...)
	}
	return cfg, nil
}

// parse validates every field separately, so that all errors are reported together.
func parse(data []byte, dir string) (*Config, []error) {
	var doc map[string]any
	if err := yaml.UnmarshalStrict(data, &doc); err != nil {
		return nil, []error{err}
	}
	if doc["apiVersion"] != "kubelet.config.k8s.io/v1beta1" || doc["kind"] != "KubeletConfiguration" {
		return nil, []error{fmt.Errorf("apiVersion %v and kind %v: must be kubelet.config.k8s.io/v1beta1 and KubeletConfiguration", doc["apiVersion"], doc["kind"])}
	}
	delete(doc, "apiVersion")
	delete(doc, "kind")
	p := parser{cfg: &Config{}, dir: dir}
	for _, name := range sortedKeys(doc) {
		p.field(name, doc[name])
	}
	return p.cfg, p.errs
}
