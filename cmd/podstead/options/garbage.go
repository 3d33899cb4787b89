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

	logMaxSize, podLogsMax string
}

// The kubelet's defaults.
const (
	defaultLogMaxSize  = "10Mi"
	defaultLogMaxFiles = 5
)

// addFlags declares flags under the kubelet's names where it has them.
func (g *Garbage) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&g.ContainerMinAge, "minimum-container-ttl-duration", 0, "`age` before which no dead container is removed")
	f.IntVar(&g.MaxPerContainer, "maximum-dead-containers-per-container", 1, "`number` of dead instances kept of each container, one at least; negative for no bound")
	f.IntVar(&g.MaxContainers, "maximum-dead-containers", -1, "`number` of dead instances kept of all containers, the last of each aside; negative for no bound")
	f.StringVar(&g.logMaxSize, "container-log-max-size", defaultLogMaxSize, "`size` at which a container's log is rotated, such as 10Mi; negative for never")
	f.IntVar(&g.LogMaxFiles, "container-log-max-files", defaultLogMaxFiles, "`number` of files kept of it, two at least")
	f.StringVar(&g.podLogsMax, "pod-logs-max-size", "0", "`size` that all logs of a pod have at most, the oldest go first; 0 for no bound beside those of its containers")
}

// merge takes from the file what no flag says.
func (g *Garbage) merge(c *kubeletconfig.Config, f *pflag.FlagSet) {
	if c.Garbage.ContainerLogMaxSize != "" && !f.Changed("container-log-max-size") {
		g.logMaxSize = c.Garbage.ContainerLogMaxSize
	}
	if c.Garbage.ContainerLogMaxFiles != nil && !f.Changed("container-log-max-files") {
		g.LogMaxFiles = *c.Garbage.ContainerLogMaxFiles
	}
}

func (g *Garbage) check() (err error) {
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
