package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Garbage are the settings of container, image and log garbage collection.
type Garbage struct {
	// ContainerMinAge is the minimum age of a dead container to be removed.
	ContainerMinAge time.Duration
	// MaxPerContainer and MaxContainers are the maximum numbers of dead instances to
	// keep, per container and in total; negative for no limit. A MaxPerContainer of 0
	// counts as 1.
	MaxPerContainer, MaxContainers int

	// LogMaxSize is the size in bytes at which a log is rotated; negative for never.
	LogMaxSize int64
	// LogMaxFiles is the maximum number of log files per container instance.
	LogMaxFiles int
	// PodLogsMax is the maximum size in bytes of all logs of a pod; 0 for no limit.
	PodLogsMax int64

	// ImageHigh and ImageLow are in percent of the image file system.
	ImageHigh, ImageLow int
	// ImagePeriod is the interval of image garbage collection.
	ImagePeriod time.Duration
	// ImageMinAge is the minimum age of an image to be removed. ImageMaxAge is how
	// long an unused image is kept; 0 for no limit.
	ImageMinAge, ImageMaxAge time.Duration

	logMaxSize, podLogsMax string
}

// The kubelet's defaults.
const (
	defaultLogMaxSize  = "10Mi"
	defaultLogMaxFiles = 5
	defaultImageHigh   = 85
	defaultImageLow    = 80
	defaultImageMinAge = 2 * time.Minute
	defaultImagePeriod = 5 * time.Minute
)

// addFlags declares the flags; those that the kubelet has carry its names.
func (g *Garbage) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&g.ContainerMinAge, "minimum-container-ttl-duration", 0, "minimum `age` of a dead container before it is removed")
	f.IntVar(&g.MaxPerContainer, "maximum-dead-containers-per-container", 1, "maximum `number` of dead instances to keep per container; 0 counts as 1, negative for no limit")
	f.IntVar(&g.MaxContainers, "maximum-dead-containers", -1, "maximum `number` of dead instances to keep in total, except the last one of each container; negative for no limit")
	f.StringVar(&g.logMaxSize, "container-log-max-size", defaultLogMaxSize, "maximum `size` of a container log before it is rotated, such as 10Mi; negative for never")
	f.IntVar(&g.LogMaxFiles, "container-log-max-files", defaultLogMaxFiles, "maximum `number` of log files per container, at least 2")
	f.StringVar(&g.podLogsMax, "pod-logs-max-size", "0", "maximum `size` of all logs of a pod, the oldest are removed first; 0 for no limit beyond those per container")
	f.IntVar(&g.ImageHigh, "image-gc-high-threshold", defaultImageHigh, "`percent` of disk usage above which unused images are removed; 100 for never")
	f.IntVar(&g.ImageLow, "image-gc-low-threshold", defaultImageLow, "`percent` of disk usage to which image garbage collection frees space")
	f.DurationVar(&g.ImagePeriod, "image-gc-period", defaultImagePeriod, "`interval` of image garbage collection")
	f.DurationVar(&g.ImageMinAge, "minimum-image-ttl-duration", defaultImageMinAge, "minimum `age` of an unused image before it is removed")
	f.DurationVar(&g.ImageMaxAge, "maximum-image-ttl-duration", 0, "maximum `age` of an unused image before it is removed; 0 for no limit")
}

// merge applies the settings of the file that no flag sets.
func (g *Garbage) merge(c *kubeletconfig.Config, f *pflag.FlagSet) {
	if c.Garbage.ContainerLogMaxSize != "" && !f.Changed("container-log-max-size") {
		g.logMaxSize = c.Garbage.ContainerLogMaxSize
	}
	if c.Garbage.ContainerLogMaxFiles != nil && !f.Changed("container-log-max-files") {
		g.LogMaxFiles = *c.Garbage.ContainerLogMaxFiles
	}
	take(f, "image-gc-high-threshold", c.Garbage.ImageGCHighThresholdPercent, &g.ImageHigh)
	take(f, "image-gc-low-threshold", c.Garbage.ImageGCLowThresholdPercent, &g.ImageLow)
	take(f, "minimum-image-ttl-duration", c.Garbage.ImageMinimumGCAge, &g.ImageMinAge)
	take(f, "maximum-image-ttl-duration", c.Garbage.ImageMaximumGCAge, &g.ImageMaxAge)
}

// take applies a setting of the file unless the flag is set.
func take[T any](f *pflag.FlagSet, flag string, from, to *T) {
	if from != nil && !f.Changed(flag) {
		*to = *from
	}
}

func (g *Garbage) check() (err error) {
	if g.ImageHigh < 0 || g.ImageHigh > 100 || g.ImageLow < 0 || g.ImageLow >= max(g.ImageHigh, 1) {
		return fmt.Errorf("--image-gc-high-threshold=%d and --image-gc-low-threshold=%d: must be percentages, and the low threshold must be less than the high threshold", g.ImageHigh, g.ImageLow)
	}
	if g.ImagePeriod < time.Second {
		return fmt.Errorf("--image-gc-period=%s: must be at least 1s, such as 5m", g.ImagePeriod)
	}
	if g.ImageMinAge < 0 || g.ImageMaxAge < 0 || g.ImageMaxAge > 0 && g.ImageMaxAge < g.ImageMinAge {
		return fmt.Errorf("--minimum-image-ttl-duration=%s and --maximum-image-ttl-duration=%s: must not be negative, and the maximum must not be less than the minimum unless it is 0", g.ImageMinAge, g.ImageMaxAge)
	}
	if g.LogMaxSize, err = size(g.logMaxSize); err != nil {
		return fmt.Errorf("--container-log-max-size: %w", err)
	}
	if g.PodLogsMax, err = size(g.podLogsMax); err != nil || g.PodLogsMax < 0 {
		return fmt.Errorf("--pod-logs-max-size=%s: must be a size such as 200Mi, or 0", g.podLogsMax)
	}
	if g.LogMaxFiles < 2 {
		return fmt.Errorf("--container-log-max-files=%d: must be at least 2, the current file and a rotated one", g.LogMaxFiles)
	}
	if g.ContainerMinAge < 0 {
		return fmt.Errorf("--minimum-container-ttl-duration=%s: must not be negative", g.ContainerMinAge)
	}
	return nil
}

// size parses a number of bytes.
func size(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a valid size, such as 10Mi", text)
	}
	return q.Value(), nil
}
