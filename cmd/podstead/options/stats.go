package options

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
)

// Stats are how what is used is measured.
type Stats struct {
	// DiskAge is how old figures of disks may be that somebody is shown.
	DiskAge time.Duration
}

// defaultDiskAge is the kubelet's.
const defaultDiskAge = time.Minute

func (s *Stats) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&s.DiskAge, "volume-stats-agg-period", defaultDiskAge, "`age` up to which figures of volumes, logs and root file systems are shown again; they are measured only when somebody asks")
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
