package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Garbage are the bounds of what pods leave behind.
type Garbage struct {
	// ContainerMinAge is how long a dead container is left alone.
	ContainerMinAge time.Duration
	// MaxPerContainer and MaxContainers are how many dead instances are kept,
	// of one container and of all; negative is no bound.
	MaxPerContainer, MaxContainers int
}

// addFlags declares the kubelet's flags of these names.
func (g *Garbage) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&g.ContainerMinAge, "minimum-container-ttl-duration", 0, "`age` before which no dead container is removed")
	f.IntVar(&g.MaxPerContainer, "maximum-dead-containers-per-container", 1, "`number` of dead instances kept of each container, one at least; negative for no bound")
	f.IntVar(&g.MaxContainers, "maximum-dead-containers", -1, "`number` of dead instances kept of all containers, the last of each aside; negative for no bound")
}

func (g *Garbage) check() error {
	if g.ContainerMinAge < 0 {
		return fmt.Errorf("--minimum-container-ttl-duration=%s: must not be negative", g.ContainerMinAge)
	}
	return nil
}
