package config

import "time"

// Stats are the settings of resource usage statistics.
type Stats struct {
	// DiskAge is the maximum age of cached disk usage figures.
	DiskAge time.Duration
}

// defaultDiskAge is the kubelet's default.
const defaultDiskAge = time.Minute

func (u *Stats) settings() []setting {
	return []setting{{
		flag: "volume-stats-agg-period", field: "volumeStatsAggPeriod", value: duration(&u.DiskAge, defaultDiskAge),
		check: atLeast(&u.DiskAge, 0, "must not be negative"),
		help:  "maximum `age` of cached usage of volumes, logs and root file systems, which is measured on request",
	}}
}
