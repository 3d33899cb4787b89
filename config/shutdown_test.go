package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShutdown(t *testing.T) {
	for _, c := range []struct {
		file, flags string
		// want is the policy, or a part of the error if it does not start with [.
		want string
	}{
		{"", "", "[{0 1m0s} {2000000000 30s}]"},
		{"", "--shutdown-grace-period=0", "[]"},
		{"", "--shutdown-grace-period=30s", "[{0 20s} {2000000000 10s}]"},
		{"", "--shutdown-grace-period=30s --shutdown-grace-period-critical-pods=0", "[{0 30s} {2000000000 0s}]"},
		{"", "--shutdown-grace-period-by-pod-priority=1000=20s,0=60s", "[{0 1m0s} {1000 20s}]"},
		{"", "--shutdown-grace-period-by-pod-priority=0=0s", "[]"},
		{"shutdownGracePeriod: 0s", "", "[]"},
		{"shutdownGracePeriod: 30s\nshutdownGracePeriodCriticalPods: 5s", "", "[{0 25s} {2000000000 5s}]"},
		{"shutdownGracePeriodCriticalPods: 0s", "", "[{0 1m30s} {2000000000 0s}]"},
		{"shutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 7}, {priority: -5, " +
			"shutdownGracePeriodSeconds: 8}]", "", "[{-5 8s} {5 7s}]"},
		{"shutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 7}]", "--shutdown-grace-period=3s",
			"[{0 2s} {2000000000 1s}]"},
		{"shutdownGracePeriod: 0s\nshutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 7}]", "",
			"[{5 7s}]"},
		{"shutdownGracePeriod: 30s", "--shutdown-grace-period-by-pod-priority=1=2s", "[{1 2s}]"},

		{"", "--shutdown-grace-period=10ms", "must be 1s"},
		{"", "--shutdown-grace-period=2h", "must be 1s to 1h0m0s"},
		{"", "--shutdown-grace-period=10s --shutdown-grace-period-critical-pods=11s",
			"must be 0 to --shutdown-grace-period, 10s"},
		{"", "--shutdown-grace-period=10s --shutdown-grace-period-by-pod-priority=0=1s", "mutually exclusive"},
		{"", "--shutdown-grace-period-by-pod-priority=many=1s", `"many" is not a valid priority`},
		{"", "--shutdown-grace-period-by-pod-priority=1=soon", `"soon" is not a valid duration`},
		{"", "--shutdown-grace-period-by-pod-priority=1=50m,2=50m", "the sum 1h40m0s"},
		{"shutdownGracePeriod: 10s\nshutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 7}]", "",
			"mutually exclusive"},
		{"shutdownGracePeriodByPodPriority: [{priority: 5, seconds: 7}]", "",
			"shutdownGracePeriodByPodPriority[0].seconds: unknown field"},
		{"shutdownGracePeriodByPodPriority: [{priority: 5, shutdownGracePeriodSeconds: 7}, {priority: 5, " +
			"shutdownGracePeriodSeconds: 7}]", "", "duplicate shutdown grace period"},
		{"shutdownGracePeriodByPodPriority: [{priority: 99999999999, shutdownGracePeriodSeconds: 7}]", "",
			"must be an integer"},
	} {
		args := strings.Fields(c.flags)
		if c.file != "" {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file,
				[]byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+c.file+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, "--config", file)
		}
		o, _, err := complete(t, args...)
		switch {
		case strings.HasPrefix(c.want, "["):
			if err != nil || fmt.Sprint(o.Shutdown.Policy) != c.want {
				t.Errorf("%q and %q: %v, %v, want %s", c.file, c.flags, o.Shutdown.Policy, err, c.want)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%q and %q: %v, want %s", c.file, c.flags, err, c.want)
		}
	}
}
