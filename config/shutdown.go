package config

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/podstead/podstead/node/shutdown"
)

// Shutdown are the settings of graceful node shutdown.
type Shutdown struct {
	// Policy is empty if shutdown does not wait for pods.
	Policy shutdown.Policy

	total, critical time.Duration
	// byPriority is the flag, and groups are those of the flag or of a file.
	byPriority map[string]string
	groups     []shutdownGroup
}

// defaultShutdown is systemd's default stop timeout of a service. (The kubelet does not wait
// by default.) Critical pods get a third of the total.
const (
	defaultShutdown = 90 * time.Second
	criticalPart    = 3
)

func (d *Shutdown) settings() []setting {
	unlessGroups := func(period *time.Duration) func(RuntimeDefaults) any {
		return func(RuntimeDefaults) any {
			if len(d.groups) > 0 {
				return "0s" // the groups apply instead
			}
			return period.String()
		}
	}
	critical := durationOrZero(&d.critical, defaultShutdown/criticalPart)
	critical.zero = "0s"
	return []setting{
		{flag: "shutdown-grace-period", field: "shutdownGracePeriod", value: durationOrZero(&d.total, defaultShutdown),
			shown: unlessGroups(&d.total),
			help:  "`time` that pods get to terminate when the host shuts down; 0 disables graceful shutdown"},
		{flag: "shutdown-grace-period-critical-pods", field: "shutdownGracePeriodCriticalPods", value: critical,
			shown: unlessGroups(&d.critical),
			help:  "part of that `time` for critical pods, which are terminated last (default: a third)"},
		{flag: "shutdown-grace-period-by-pod-priority", field: "shutdownGracePeriodByPodPriority",
			value: pairs(&d.byPriority, "").reading(d.readGroups), check: d.checkFlag,
			shown: d.groupsField,
			help: "grace periods by minimum pod `priority`, instead of the two flags above, such as " +
				"0=60s,1000=20s,2000000000=10s"},
	}
}

// shutdownGroup is the grace period of pods with a minimum priority.
type shutdownGroup struct {
	priority int
	period   time.Duration
}

func (d *Shutdown) readGroups(n node) bool {
	if _, ok := n.value.([]any); !ok {
		n.fail("must be a list, such as [{priority: 1000, shutdownGracePeriodSeconds: 20}]")
		return false
	}
	d.groups = nil
	items, _ := n.items("")
	for _, item := range items {
		if _, ok := item.value.(map[string]any); !ok {
			item.fail("must have priority and shutdownGracePeriodSeconds")
			continue
		}
		var g shutdownGroup
		fields, _ := item.object("", "priority", "shutdownGracePeriodSeconds")
		if field, ok := fields["priority"]; ok {
			g.priority, _ = field.number(math.MinInt32, math.MaxInt32)
		}
		if field, ok := fields["shutdownGracePeriodSeconds"]; ok {
			seconds, _ := field.number(0, math.MaxInt32)
			g.period = time.Duration(seconds) * time.Second
		}
		d.groups = append(d.groups, g)
	}
	return len(items) > 0
}

func (d *Shutdown) groupsField(RuntimeDefaults) any {
	groups := []map[string]any{}
	for _, g := range d.groups {
		groups = append(groups, map[string]any{"priority": g.priority,
			"shutdownGracePeriodSeconds": int(g.period / time.Second)})
	}
	return groups
}

// checkFlag parses the groups of the flag.
func (d *Shutdown) checkFlag(s *setting) {
	if s.source != fromFlag {
		return
	}
	d.groups = nil
	for _, text := range slices.Sorted(maps.Keys(d.byPriority)) {
		priority, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			s.fail(": %q is not a valid priority; use an integer, such as 1000=20s", text)
			continue
		}
		period, err := time.ParseDuration(d.byPriority[text])
		if err != nil {
			s.fail(": %s=%s: %q is not a valid duration, such as 20s", text, d.byPriority[text], d.byPriority[text])
			continue
		}
		d.groups = append(d.groups, shutdownGroup{int(priority), period})
	}
}

// check sets the policy. Of the alternatives, the total or the groups, one by flag overrides another
// one in a file.
func (d *Shutdown) check(t *table) {
	total, critical, groups := t.at(&d.total), t.at(&d.critical), t.at(&d.byPriority)
	switch twoByFlag := total.source == fromFlag || critical.source == fromFlag; {
	case groups.source == fromFlag && twoByFlag, groups.source == fromFile && !twoByFlag && total.source == fromFile &&
		d.total > 0:
		t.fail("%s and %s, or their fields in the file, are mutually exclusive; remove one", groups, total)
		return
	case groups.source == fromFile && twoByFlag:
		d.groups = nil
	}
	if groups.broken {
		return
	}
	if len(d.groups) > 0 {
		d.checkGroups(groups)
		return
	}
	if !critical.isSet() {
		d.critical = (d.total / criticalPart).Truncate(time.Second)
	}
	if d.total < 0 || d.total > 0 && d.total < time.Second || d.total > maxShutdown {
		t.fail("%s=%s: must be 1s to %s, or 0", total, d.total, maxShutdown)
	} else if d.critical < 0 || d.critical > d.total {
		t.fail("%s=%s: must be 0 to %s, %s", critical, d.critical, total, d.total)
	}
	d.Policy = shutdown.NewPolicy(d.total, d.critical)
}

// maxShutdown is the maximum delay of a host shutdown.
const maxShutdown = time.Hour

func (d *Shutdown) checkGroups(s *setting) {
	seen := map[int]bool{}
	for _, g := range d.groups {
		if seen[g.priority] {
			s.fail(": duplicate shutdown grace period of priority %d; remove one", g.priority)
		}
		seen[g.priority] = true
		if g.period < 0 || g.period > maxShutdown {
			s.fail(": shutdown grace period of priority %d: %s must be 0s to %s", g.priority, g.period, maxShutdown)
		}
		d.Policy = append(d.Policy, shutdown.Group{Priority: int32(g.priority), Period: g.period})
	}
	d.Policy = d.Policy.Sorted()
	if total := d.Policy.Total(); total == 0 {
		d.Policy = nil
	} else if total > maxShutdown && len(d.Policy) > 1 {
		s.fail(": shutdown grace periods by priority: the sum %s must not exceed %s", total, maxShutdown)
	}
}
