package config

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
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

func (g *Garbage) settings() []setting {
	return []setting{
		{flag: "minimum-container-ttl-duration", own: "minimumContainerTTLDuration",
			value: durationOrZero(&g.ContainerMinAge, 0), check: atLeast(&g.ContainerMinAge, 0, "must not be negative"),
			help: "minimum `age` of a dead container before it is removed"},
		{flag: "maximum-dead-containers-per-container", own: "maximumDeadContainersPerContainer",
			value: anyInteger(&g.MaxPerContainer, 1),
			help:  "maximum `number` of dead instances to keep per container; 0 counts as 1, negative for no limit"},
		{flag: "maximum-dead-containers", own: "maximumDeadContainers", value: anyInteger(&g.MaxContainers, -1),
			help: "maximum `number` of dead instances to keep in total, except the last one of each container; negative for " +
				"no limit"},
		{flag: "container-log-max-size", field: "containerLogMaxSize", value: text(&g.logMaxSize, defaultLogMaxSize),
			check: parsed(&g.logMaxSize, &g.LogMaxSize, size),
			help:  "maximum `size` of a container log before it is rotated, such as 10Mi; negative for never"},
		{flag: "container-log-max-files", field: "containerLogMaxFiles",
			value: integer(&g.LogMaxFiles, defaultLogMaxFiles, 2, math.MaxInt32),
			check: atLeast(&g.LogMaxFiles, 2, "must be at least 2, the current file and a rotated one"),
			help:  "maximum `number` of log files per container, at least 2"},
		{
			flag: "pod-logs-max-size", own: "podLogsMaxSize", value: text(&g.podLogsMax, "0"),
			check: func(s *setting) {
				var err error
				if g.PodLogsMax, err = size(g.podLogsMax); err != nil || g.PodLogsMax < 0 {
					s.fail("=%s: must be a size such as 200Mi, or 0", g.podLogsMax)
				}
			},
			help: "maximum `size` of all logs of a pod, the oldest are removed first; 0 for no limit beyond those per container",
		},
		{flag: "image-gc-high-threshold", field: "imageGCHighThresholdPercent",
			value: integer(&g.ImageHigh, defaultImageHigh, 0, 100),
			help:  "`percent` of disk usage above which unused images are removed; 100 for never"},
		{flag: "image-gc-low-threshold", field: "imageGCLowThresholdPercent",
			value: integer(&g.ImageLow, defaultImageLow, 0, 100),
			help:  "`percent` of disk usage to which image garbage collection frees space"},
		{flag: "image-gc-period", own: "imageGCPeriod", value: durationOrZero(&g.ImagePeriod, defaultImagePeriod),
			check: atLeast(&g.ImagePeriod, time.Second, "must be at least 1s, such as 5m"),
			help:  "`interval` of image garbage collection"},
		{flag: "minimum-image-ttl-duration", field: "imageMinimumGCAge", value: duration(&g.ImageMinAge, defaultImageMinAge),
			help: "minimum `age` of an unused image before it is removed"},
		{flag: "maximum-image-ttl-duration", field: "imageMaximumGCAge", value: duration(&g.ImageMaxAge, 0),
			help: "maximum `age` of an unused image before it is removed; 0 for no limit"},
	}
}

func (g *Garbage) check(t *table) {
	if g.ImageHigh < 0 || g.ImageHigh > 100 || g.ImageLow < 0 || g.ImageLow >= max(g.ImageHigh, 1) {
		t.fail("%s=%d and %s=%d: must be percentages, and the low threshold must be less than the high threshold",
			t.at(&g.ImageHigh), g.ImageHigh, t.at(&g.ImageLow), g.ImageLow)
	}
	if g.ImageMinAge < 0 || g.ImageMaxAge < 0 || g.ImageMaxAge > 0 && g.ImageMaxAge < g.ImageMinAge {
		t.fail("%s=%s and %s=%s: must not be negative, and the maximum must not be less than the minimum unless it is 0",
			t.at(&g.ImageMinAge), g.ImageMinAge, t.at(&g.ImageMaxAge), g.ImageMaxAge)
	}
}

// size parses a number of bytes.
func size(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a valid size, such as 10Mi", text)
	}
	return q.Value(), nil
}
