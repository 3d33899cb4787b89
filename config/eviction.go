package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/config/kubeletconfig"
	"github.com/podstead/podstead/node/evict"
)

// Eviction are the settings of node-pressure eviction.
type Eviction struct {
	Thresholds []evict.Threshold
	// Transition is how long pressure must be gone before evicted pods run again.
	Transition time.Duration
	// MaxPodGrace is the maximum grace period, in seconds, for soft thresholds.
	MaxPodGrace int

	hard, soft, softGrace, reclaim map[string]string
}

// defaultTransition is the kubelet's default.
const defaultTransition = 5 * time.Minute

// evictionFlags are the flags of the settings, in the order in which they are parsed.
var evictionFlags = [4]string{"--eviction-hard", "--eviction-soft", "--eviction-soft-grace-period", "--eviction-minimum-reclaim"}

// MinFree returns what must be free for a signal, such as nodefs.available, of a capacity; 0
// without a hard threshold.
func (e *Eviction) MinFree(signal string, capacity int64) int64 {
	for _, t := range e.Thresholds {
		if !t.Soft && string(t.Signal) == signal {
			return t.Min.Of(capacity)
		}
	}
	return 0
}

func (e *Eviction) addFlags(f *pflag.FlagSet) {
	// The kubelet has no hard thresholds without --config.
	e.hard = maps.Clone(evict.DefaultHard)
	f.Var(&signalMap{&e.hard, "<"}, "eviction-hard", "hard eviction `thresholds`, such as memory.available<100Mi; replaces the defaults; empty for none")
	f.Var(&signalMap{&e.soft, "<"}, "eviction-soft", "soft eviction `thresholds`, such as memory.available<300Mi")
	f.Var(&signalMap{&e.softGrace, "="}, "eviction-soft-grace-period", "grace `periods` of the soft thresholds, such as memory.available=1m30s")
	f.Var(&signalMap{&e.reclaim, "="}, "eviction-minimum-reclaim", "minimum `amounts` to reclaim beyond a threshold, such as memory.available=100Mi")
	f.DurationVar(&e.Transition, "eviction-pressure-transition-period", defaultTransition, "`time` for which pressure must be gone before evicted pods run again")
	f.IntVar(&e.MaxPodGrace, "eviction-max-pod-grace-period", 0, "maximum grace period, in `seconds`, of pods that are evicted for a soft threshold")
}

// merge applies the settings of the file that no flag sets.
func (e *Eviction) merge(c *kubeletconfig.Eviction, f *pflag.FlagSet) {
	if c.Hard != nil && !f.Changed("eviction-hard") {
		e.hard = c.Hard
		if c.MergeDefaults != nil && *c.MergeDefaults {
			e.hard = maps.Clone(evict.DefaultHard)
			maps.Copy(e.hard, c.Hard)
		}
	}
	for flag, to := range map[string]struct{ from, to *map[string]string }{
		"eviction-soft":              {&c.Soft, &e.soft},
		"eviction-soft-grace-period": {&c.SoftGracePeriod, &e.softGrace},
		"eviction-minimum-reclaim":   {&c.MinimumReclaim, &e.reclaim},
	} {
		if *to.from != nil && !f.Changed(flag) {
			*to.to = *to.from
		}
	}
	take(f, "eviction-pressure-transition-period", c.TransitionPeriod, &e.Transition)
	take(f, "eviction-max-pod-grace-period", c.MaxPodGracePeriod, &e.MaxPodGrace)
}

func (e *Eviction) check() (err error) {
	if e.Transition < 0 {
		return fmt.Errorf("--eviction-pressure-transition-period=%s: must not be negative", e.Transition)
	}
	if e.MaxPodGrace < 0 {
		return fmt.Errorf("--eviction-max-pod-grace-period=%d: must not be negative", e.MaxPodGrace)
	}
	e.Thresholds, err = evict.Settings{Hard: e.hard, Soft: e.soft, SoftGrace: e.softGrace, MinReclaim: e.reclaim}.Parse(evictionFlags)
	return err
}

// HardReserved returns the part of a capacity that hard thresholds reserve.
func (e *Eviction) HardReserved(capacity v1.ResourceList) v1.ResourceList {
	reserved := v1.ResourceList{}
	for name, signal := range map[v1.ResourceName]evict.Signal{v1.ResourceMemory: evict.MemoryAvailable, v1.ResourceEphemeralStorage: evict.NodeFSAvailable} {
		if total, ok := capacity[name]; ok {
			reserved[name] = *resource.NewQuantity(evict.HardMin(e.Thresholds, signal, total.Value()), total.Format)
		}
	}
	return reserved
}

// memoryList is a capacity that has only memory.
func memoryList(bytes int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(bytes, resource.BinarySI)}
}

// signalMap is a flag value of signals with a value each, in the kubelet's format.
type signalMap struct {
	to        *map[string]string
	separator string
}

// Set replaces the current value.
func (m *signalMap) Set(text string) error {
	values := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		signal, value, ok := strings.Cut(pair, m.separator)
		signal, value = strings.TrimSpace(signal), strings.TrimSpace(value)
		if !ok || signal == "" || value == "" {
			return fmt.Errorf("%q must be SIGNAL%sVALUE, such as memory.available%s%s", pair, m.separator, m.separator, map[string]string{"<": "100Mi", "=": "1m30s"}[m.separator])
		}
		values[signal] = value
	}
	*m.to = values
	return nil
}

// String returns the value as it is set.
func (m *signalMap) String() string {
	if m.to == nil {
		return ""
	}
	var pairs []string
	for _, signal := range slices.Sorted(maps.Keys(*m.to)) {
		pairs = append(pairs, signal+m.separator+(*m.to)[signal])
	}
	return strings.Join(pairs, ",")
}

// Type implements pflag.Value.
func (m *signalMap) Type() string { return "signals" }
