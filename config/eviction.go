package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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
	mergeDefaults                  bool
}

// defaultTransition is the kubelet's default.
const defaultTransition = 5 * time.Minute

// MinFree returns what must be free for a signal, such as nodefs.available, of a capacity; 0
// without a hard threshold.
func (e *Eviction) MinFree(signal string, capacity int64) int64 {
	for _, t := range e.Thresholds {
		if !t.Soft && t.Signal.String() == signal {
			return t.Min.ForCapacity(capacity)
		}
	}
	return 0
}

// ReservedSpace returns how many bytes of the file system of a directory stay free, since pods are evicted with less,
// and the setting that says so, for messages; 0 and empty if no threshold does. images is a directory on the file
// system of the images, empty if it is not known. Soft thresholds count too: a disk stays as full as it is.
func (e *Eviction) ReservedSpace(directory, images string, capacity int64) (bytes int64, setting string) {
	signals := []evict.Signal{evict.NodeFSAvailable}
	if images != "" && evict.SameFS(directory, images) {
		signals = append(signals, evict.ImageFSAvailable)
	}
	t, ok := evict.HighestMin(e.Thresholds, capacity, signals...)
	if !ok {
		return 0, ""
	}
	setting = "evictionHard"
	if t.Soft {
		setting = "evictionSoft"
	}
	return t.Min.ForCapacity(capacity), setting + " " + t.Signal.String() + "<" + t.Min.String()
}

func (e *Eviction) settings() []setting {
	return []setting{
		{
			// The kubelet has no hard thresholds without --config.
			flag: "eviction-hard", field: "evictionHard", value: signals(&e.hard, "<", maps.Clone(evict.DefaultHard)),
			help: "hard eviction `thresholds`, such as memory.available<100Mi; replaces the defaults; empty for none",
		},
		{flag: "eviction-soft", field: "evictionSoft", value: signals(&e.soft, "<", nil),
			help: "soft eviction `thresholds`, such as memory.available<300Mi"},
		{flag: "eviction-soft-grace-period", field: "evictionSoftGracePeriod", value: signals(&e.softGrace, "=", nil),
			help: "grace `periods` of the soft thresholds, such as memory.available=1m30s"},
		{flag: "eviction-minimum-reclaim", field: "evictionMinimumReclaim", value: signals(&e.reclaim, "=", nil),
			help: "minimum `amounts` to reclaim beyond a threshold, such as memory.available=100Mi"},
		{
			field: "mergeDefaultEvictionSettings", value: boolean(&e.mergeDefaults, false),
			// evictionHard has the defaults that are in force.
			shown: func(RuntimeDefaults) any { return false },
			help:  "keep the default thresholds of signals that evictionHard does not set",
		},
		{flag: "eviction-pressure-transition-period", field: "evictionPressureTransitionPeriod",
			value: duration(&e.Transition, defaultTransition), check: atLeast(&e.Transition, 0, "must not be negative"),
			help: "`time` for which pressure must be gone before evicted pods run again"},
		{flag: "eviction-max-pod-grace-period", field: "evictionMaxPodGracePeriod",
			value: integer(&e.MaxPodGrace, 0, 0, math.MaxInt32), check: atLeast(&e.MaxPodGrace, 0, "must not be negative"),
			help: "maximum grace period, in `seconds`, of pods that are evicted for a soft threshold"},
	}
}

// check sets the thresholds.
func (e *Eviction) check(t *table) {
	hard := t.at(&e.hard)
	if hard.source == fromFile && e.mergeDefaults {
		all := maps.Clone(evict.DefaultHard)
		maps.Copy(all, e.hard)
		e.hard = all
	}
	rows := [4]*setting{hard, t.at(&e.soft), t.at(&e.softGrace), t.at(&e.reclaim)}
	var names [4]string
	for i, s := range rows {
		if names[i] = s.String(); s.broken {
			return // the thresholds depend on one another
		}
	}
	var err error
	e.Thresholds, err = evict.Settings{Hard: e.hard, Soft: e.soft, SoftGrace: e.softGrace,
		MinReclaim: e.reclaim}.Parse(names)
	joined, _ := err.(interface{ Unwrap() []error })
	if joined == nil {
		return
	}
	for _, err := range joined.Unwrap() {
		if of := (*evict.SettingError)(nil); errors.As(err, &of) {
			t.failAt(rows[of.Setting], ": %s", of.Message)
			rows[of.Setting].broken = true
		}
	}
}

// HardReserved returns the part of a capacity that hard thresholds reserve.
func (e *Eviction) HardReserved(capacity v1.ResourceList) v1.ResourceList {
	reserved := v1.ResourceList{}
	for name, signal := range map[v1.ResourceName]evict.Signal{v1.ResourceMemory: evict.MemoryAvailable,
		v1.ResourceEphemeralStorage: evict.NodeFSAvailable} {
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
			return fmt.Errorf("%q must be SIGNAL%sVALUE, such as memory.available%s%s", pair, m.separator, m.separator,
				map[string]string{"<": "100Mi", "=": "1m30s"}[m.separator])
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
