package kubeletconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// Config holds the honoured fields. A nil pointer, map or zero string means
// that the file does not set the field.
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
	// MaxContainerRestartPeriod caps the crash-loop back-off.
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

	VolumeStatsAggPeriod *time.Duration

	StreamingConnectionIdleTimeout *time.Duration

	HealthzBindAddress string
	HealthzPort        *int

	// Ignored names the fields that the file sets and podstead does not
	// honour, with the reason, in the order of the file's field names.
	Ignored []string
}

// Garbage holds the fields that bound what pods leave behind.
type Garbage struct {
	// ContainerLogMaxSize is a quantity of bytes.
	ContainerLogMaxSize  string
	ContainerLogMaxFiles *int
	// The thresholds are percent of the image file system.
	ImageGCHighThresholdPercent, ImageGCLowThresholdPercent *int
	ImageMinimumGCAge, ImageMaximumGCAge                    *time.Duration
}

// maxFileSize bounds the file; a real one has a few kilobytes.
const maxFileSize = 1 << 20

// Read reads the file. Relative paths in it count from its own folder, as the
// kubelet has it. Unknown and duplicate fields are errors; all are told at once.
func Read(path string) (*Config, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read --config: %w", err)
	}
	if fi.Size() > maxFileSize {
		return nil, fmt.Errorf("--config %s has %d bytes, more than the %d that a configuration may have", path, fi.Size(), maxFileSize)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read --config: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read --config: %w", err)
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

// parse judges every field on its own, so that all faults are told at once.
func parse(data []byte, dir string) (*Config, []error) {
	var doc map[string]any
	if err := yaml.UnmarshalStrict(data, &doc); err != nil {
		return nil, []error{err}
	}
	if doc["apiVersion"] != "kubelet.config.k8s.io/v1beta1" || doc["kind"] != "KubeletConfiguration" {
		return nil, []error{fmt.Errorf("apiVersion %v and kind %v: want kubelet.config.k8s.io/v1beta1 and KubeletConfiguration", doc["apiVersion"], doc["kind"])}
	}
	delete(doc, "apiVersion")
	delete(doc, "kind")
	p := parser{cfg: &Config{}, dir: dir}
	for _, name := range sortedKeys(doc) {
		p.field(name, doc[name])
	}
	return p.cfg, p.errs
}
