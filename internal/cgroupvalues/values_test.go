package cgroupvalues

import "testing"

func TestQuota(t *testing.T) {
	for _, c := range []struct {
		settings      Settings
		milli         int64
		quota, period int64
	}{
		{Settings{}, 0, 0, 100_000},
		{Settings{}, 500, 50_000, 100_000},
		{Settings{}, 1, 1000, 100_000},
		{Settings{QuotaPeriod: 10_000}, 2000, 20_000, 10_000},
		{Settings{NoCPUQuota: true}, 500, 0, 100_000},
	} {
		if quota, period := c.settings.Quota(c.milli); quota != c.quota || period != c.period {
			t.Errorf("%+v: %d millicores: quota %d, period %d", c.settings, c.milli, quota, period)
		}
	}
}

func TestCPUShares(t *testing.T) {
	for milli, want := range map[int64]int64{0: 2, 1: 2, 100: 102, 1000: 1024, 1 << 40: 262144} {
		if got := CPUShares(milli); got != want {
			t.Errorf("%d millicores: %d shares, want %d", milli, got, want)
		}
	}
}

func TestSharesOfWeight(t *testing.T) {
	for weight, want := range map[uint64]uint64{0: 2, 1: 2, 4: 80, 39: 998, 100: 2597, 10000: 262144, 20000: 262144} {
		if got := SharesOfWeight(weight); got != want {
			t.Errorf("weight %d: %d shares, want %d", weight, got, want)
		}
	}
}
