package options

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/cmd/podstead/kubeletconfig"
	"github.com/podstead/podstead/node/evict"
)

// Eviction says how little the node may have left before pods are ended.
type Eviction struct {
	Thresholds []evict.Threshold
	// Transition is how long pressure has to be gone before pods come back.
	Transition time.Duration
	// MaxPodGrace in seconds is what a pod gets for a soft threshold at most.
	MaxPodGrace int

	hard, soft, softGrace, reclaim map[string]string
}

// defaultTransition is the kubelet's.
const defaultTransition = 5 * time.Minute

// evictionFlags are the settings' names, in the order in which they are parsed.
var evictionFlags = [4]string{"--eviction-hard", "--eviction-soft", "--eviction-soft-grace-period", "--eviction-minimum-reclaim"}

func (e *Eviction) addFlags(f *pflag.FlagSet) {
	// The kubelet has none without its --config.
	e.hard = maps.Clone(evict.DefaultHard)
	f.Var(&signalMap{&e.hard, "<"}, "eviction-hard", "`signals` and how little may be left before pods are ended at once, instead of the defaults; empty for none")
	f.Var(&signalMap{&e.soft, "<"}, "eviction-soft", "`signals` and how little may be left for a time before pods are ended, such as memory.available<300Mi")
	f.Var(&signalMap{&e.softGrace, "="}, "eviction-soft-grace-period", "`signals` and that time, such as memory.available=1m30s")
	f.Var(&signalMap{&e.reclaim, "="}, "eviction-minimum-reclaim", "`signals` and how much more is to be left after pods were ended, such as memory.available=100Mi")
	f.DurationVar(&e.Transition, "eviction-pressure-transition-period", defaultTransition, "`time` for which pressure has to be gone before evicted pods run again")
	f.IntVar(&e.MaxPodGrace, "eviction-max-pod-grace-period", 0, "`seconds` that a pod gets to end for a soft threshold at most")
}

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

// Kept is what hard thresholds keep from pods of a capacity.
func (e *Eviction) Kept(capacity v1.ResourceList) v1.ResourceList {
	kept := v1.ResourceList{}
	for name, signal := range map[v1.ResourceName]evict.Signal{v1.ResourceMemory: evict.MemoryAvailable, v1.ResourceEphemeralStorage: evict.NodeFSAvailable} {
		if has, ok := capacity[name]; ok {
			kept[name] = *resource.NewQuantity(evict.HardMin(e.Thresholds, signal, has.Value()), has.Format)
		}
	}
	return kept
}

// signalMap is a flag of signals with a value each, as the kubelet writes them.
type signalMap struct {
	to   *map[string]string
	sign string
}

// Set replaces what there was.
func (m *signalMap) Set(text string) error {
	values := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		signal, value, ok := strings.Cut(pair, m.sign)
		signal, value = strings.TrimSpace(signal), strings.TrimSpace(value)
		if !ok || signal == "" || value == "" {
			return fmt.Errorf("%q must be SIGNAL%sVALUE, such as memory.available%s%s", pair, m.sign, m.sign, map[string]string{"<": "100Mi", "=": "1m30s"}[m.sign])
		}
		values[signal] = value
	}
	*m.to = values
	return nil
}

func (m *signalMap) String() string {
	if m.to == nil {
		return ""
	}
	var pairs []string
	for _, signal := range slices.Sorted(maps.Keys(*m.to)) {
		pairs = append(pairs, signal+m.sign+(*m.to)[signal])
	}
	return strings.Join(pairs, ",")
}

// Type implements pflag.Value.
func (m *signalMap) Type() string { return "signals" }
