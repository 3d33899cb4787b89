package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
)

// Stats are the settings of resource usage statistics.
type Stats struct {
	// DiskAge is the maximum age of cached disk usage figures.
	DiskAge time.Duration
}

// defaultDiskAge is the kubelet's default.
const defaultDiskAge = time.Minute

func (s *Stats) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&s.DiskAge, "volume-stats-agg-period", defaultDiskAge, "maximum `age` of cached usage of volumes, logs and root file systems, which is measured on request")
}

func (s *Stats) merge(c *kubeletconfig.Config, f *pflag.FlagSet) {
	take(f, "volume-stats-agg-period", c.VolumeStatsAggPeriod, &s.DiskAge)
}

func (s *Stats) check() error {
	if s.DiskAge < 0 {
		return fmt.Errorf("--volume-stats-agg-period=%s: must not be negative", s.DiskAge)
	}
	return nil
}
