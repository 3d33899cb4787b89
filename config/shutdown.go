package config

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/node/shutdown"
)

// Shutdown are the settings of graceful node shutdown.
type Shutdown struct {
	// Policy is empty if shutdown does not wait for pods.
	Policy shutdown.Policy

	total, critical time.Duration
	// criticalSet reports that the period of critical pods is set by the config file.
	criticalSet bool
	byPriority  map[string]string
	groups      []kubeletconfig.ShutdownGroup
}

// defaultShutdown is systemd's default stop timeout of a service. (The kubelet does not wait
// by default.) Critical pods get a third of the total.
const (
	defaultShutdown = 90 * time.Second
	criticalPart    = 3
)

func (s *Shutdown) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&s.total, "shutdown-grace-period", defaultShutdown, "`time` that pods get to terminate when the host shuts down; 0 disables graceful shutdown")
	f.DurationVar(&s.critical, "shutdown-grace-period-critical-pods", defaultShutdown/criticalPart, "part of that `time` for critical pods, which are terminated last (default: a third)")
	f.Lookup("shutdown-grace-period-critical-pods").DefValue = "0s" // hides a second default in the help
	f.StringToStringVar(&s.byPriority, "shutdown-grace-period-by-pod-priority", nil, "grace periods by minimum pod `priority`, instead of the two flags above, such as 0=60s,1000=20s,2000000000=10s")
}

// merge applies the settings of the file that no flag sets. A flag for one of the two
// alternatives overrides the other alternative in the file.
func (s *Shutdown) merge(c *kubeletconfig.Config, f *pflag.FlagSet) {
	if f.Changed("shutdown-grace-period-by-pod-priority") {
		return
	}
	flags := f.Changed("shutdown-grace-period") || f.Changed("shutdown-grace-period-critical-pods")
	take(f, "shutdown-grace-period", c.Shutdown.GracePeriod, &s.total)
	take(f, "shutdown-grace-period-critical-pods", c.Shutdown.CriticalPods, &s.critical)
	s.criticalSet = c.Shutdown.CriticalPods != nil
	if !flags {
		s.groups = c.Shutdown.ByPodPriority
		if len(s.groups) > 0 && c.Shutdown.GracePeriod != nil && *c.Shutdown.GracePeriod > 0 {
			s.byPriority = map[string]string{} // makes check report the conflict
		}
	}
}

func (s *Shutdown) check(f *pflag.FlagSet) error {
	byFlag := f.Changed("shutdown-grace-period-by-pod-priority")
	if two := f.Changed("shutdown-grace-period") || f.Changed("shutdown-grace-period-critical-pods"); byFlag && two || s.byPriority != nil && !byFlag {
		return fmt.Errorf("--shutdown-grace-period-by-pod-priority and --shutdown-grace-period, or their fields in the file, are mutually exclusive; remove one")
	}
	for text, period := range s.byPriority {
		priority, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return fmt.Errorf("--shutdown-grace-period-by-pod-priority: %q is not a valid priority; use an integer, such as 1000=20s", text)
		}
		d, err := time.ParseDuration(period)
		if err != nil {
			return fmt.Errorf("--shutdown-grace-period-by-pod-priority: %s=%s: %q is not a valid duration, such as 20s", text, period, period)
		}
		s.groups = append(s.groups, kubeletconfig.ShutdownGroup{Priority: int(priority), Period: d})
	}
	if len(s.groups) > 0 {
		return s.checkGroups()
	}
	if !s.criticalSet && !f.Changed("shutdown-grace-period-critical-pods") {
		s.critical = (s.total / criticalPart).Truncate(time.Second)
	}
	if s.total < 0 || s.total > 0 && s.total < time.Second || s.total > maxShutdown {
		return fmt.Errorf("--shutdown-grace-period=%s: must be 1s to %s, or 0", s.total, maxShutdown)
	}
	if s.critical < 0 || s.critical > s.total {
		return fmt.Errorf("--shutdown-grace-period-critical-pods=%s: must be 0 to --shutdown-grace-period, %s", s.critical, s.total)
	}
	s.Policy = shutdown.NewPolicy(s.total, s.critical)
	return nil
}

// maxShutdown is the maximum delay of a host shutdown.
const maxShutdown = time.Hour

func (s *Shutdown) checkGroups() error {
	seen := map[int]bool{}
	for _, g := range s.groups {
		if seen[g.Priority] {
			return fmt.Errorf("duplicate shutdown grace period of priority %d; remove one", g.Priority)
		}
		seen[g.Priority] = true
		if g.Priority < math.MinInt32 || g.Priority > math.MaxInt32 || g.Period < 0 || g.Period > maxShutdown {
			return fmt.Errorf("shutdown grace period of priority %d: %s must be 0s to %s", g.Priority, g.Period, maxShutdown)
		}
		s.Policy = append(s.Policy, shutdown.Group{Priority: int32(g.Priority), Period: g.Period})
	}
	s.Policy = s.Policy.Sorted()
	if total := s.Policy.Total(); total == 0 {
		s.Policy = nil
	} else if total > maxShutdown {
		return fmt.Errorf("shutdown grace periods by priority: the sum %s must not exceed %s", total, maxShutdown)
	}
	return nil
}
