package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Garbage are the bounds of what pods leave behind.
type Garbage struct {
	// ContainerMinAge is how long a dead container is left alone.
	ContainerMinAge time.Duration
	// MaxPerContainer and MaxContainers are how many dead instances are kept,
	// of one container and of all; negative is no bound.
	MaxPerContainer, MaxContainers int

	// LogMaxSize in bytes is when a log is rotated; negative rotates none.
	LogMaxSize int64
	// LogMaxFiles is how many files an instance of a container has at most.
	LogMaxFiles int
	// PodLogsMax in bytes bounds the logs of a pod; 0 is no bound of its own.
	PodLogsMax int64

	// ImageHigh and ImageLow are percent of the image file system.
	ImageHigh, ImageLow int
	// ImagePeriod is the time between two looks at it.
	ImagePeriod time.Duration
	// ImageMinAge is how long after its pull an image is left alone,
	// ImageMaxAge how long it is kept unused; 0 is for ever.
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

// addFlags declares flags under the kubelet's names where it has them.
func (g *Garbage) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&g.ContainerMinAge, "minimum-container-ttl-duration", 0, "`age` before which no dead container is removed")
	f.IntVar(&g.MaxPerContainer, "maximum-dead-containers-per-container", 1, "`number` of dead instances kept of each container, one at least; negative for no bound")
	f.IntVar(&g.MaxContainers, "maximum-dead-containers", -1, "`number` of dead instances kept of all containers, the last of each aside; negative for no bound")
	f.StringVar(&g.logMaxSize, "container-log-max-size", defaultLogMaxSize, "`size` at which a container's log is rotated, such as 10Mi; negative for never")
	f.IntVar(&g.LogMaxFiles, "container-log-max-files", defaultLogMaxFiles, "`number` of files kept of it, two at least")
	f.StringVar(&g.podLogsMax, "pod-logs-max-size", "0", "`size` that all logs of a pod have at most, the oldest go first; 0 for no bound beside those of its containers")
	f.IntVar(&g.ImageHigh, "image-gc-high-threshold", defaultImageHigh, "`percent` of their file system in use at which unused images are removed; 100 for never")
	f.IntVar(&g.ImageLow, "image-gc-low-threshold", defaultImageLow, "`percent` in use at which enough of them were")
	f.DurationVar(&g.ImagePeriod, "image-gc-period", defaultImagePeriod, "`time` between two looks at how full it is")
	f.DurationVar(&g.ImageMinAge, "minimum-image-ttl-duration", defaultImageMinAge, "`age` before which no image is removed")
	f.DurationVar(&g.ImageMaxAge, "maximum-image-ttl-duration", 0, "`time` after its last use at which an image is removed even if there is room; 0 for never")
}

// merge takes from the file what no flag says.
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

// take takes what the file says and no flag does.
func take[T any](f *pflag.FlagSet, flag string, from, to *T) {
	if from != nil && !f.Changed(flag) {
		*to = *from
	}
}

func (g *Garbage) check() (err error) {
	if g.ImageHigh < 0 || g.ImageHigh > 100 || g.ImageLow < 0 || g.ImageLow >= max(g.ImageHigh, 1) {
		return fmt.Errorf("--image-gc-high-threshold=%d and --image-gc-low-threshold=%d: must be percent, the low one less than the high one", g.ImageHigh, g.ImageLow)
	}
	if g.ImagePeriod < time.Second {
		return fmt.Errorf("--image-gc-period=%s: must be 1s at least, such as 5m", g.ImagePeriod)
	}
	if g.ImageMinAge < 0 || g.ImageMaxAge < 0 || g.ImageMaxAge > 0 && g.ImageMaxAge < g.ImageMinAge {
		return fmt.Errorf("--minimum-image-ttl-duration=%s and --maximum-image-ttl-duration=%s: must not be negative, and the latter not less than the former unless it is 0", g.ImageMinAge, g.ImageMaxAge)
	}
	if g.LogMaxSize, err = size(g.logMaxSize); err != nil {
		return fmt.Errorf("--container-log-max-size: %w", err)
	}
	if g.PodLogsMax, err = size(g.podLogsMax); err != nil || g.PodLogsMax < 0 {
		return fmt.Errorf("--pod-logs-max-size=%s: must be a size such as 200Mi, or 0", g.podLogsMax)
	}
	if g.LogMaxFiles < 2 {
		return fmt.Errorf("--container-log-max-files=%d: must be 2 at least, one that is written and one that was rotated", g.LogMaxFiles)
	}
	if g.ContainerMinAge < 0 {
		return fmt.Errorf("--minimum-container-ttl-duration=%s: must not be negative", g.ContainerMinAge)
	}
	return nil
}

// size reads a number of bytes.
func size(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no size; write one such as 10Mi", text)
	}
	return q.Value(), nil
}
