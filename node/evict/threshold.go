package evict

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultHard are the kubelet's hard thresholds.
var DefaultHard = map[string]string{
	"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%",
	"imagefs.available": "15%", "imagefs.inodesFree": "5%",
}

// Amount is a number, or a percentage of the capacity if Percent is set.
type Amount struct {
	Number  int64
	Percent float64
}

// ForCapacity returns the amount for a capacity.
func (a Amount) ForCapacity(capacity int64) int64 {
	if a.Percent > 0 {
		return int64(math.Ceil(a.Percent / 100 * float64(capacity)))
	}
	return a.Number
}

// String formats the amount as in the settings.
func (a Amount) String() string {
	if a.Percent > 0 {
		return strconv.FormatFloat(a.Percent, 'f', -1, 64) + "%"
	}
	if a.Number%1024 == 0 {
		return formatBytes(a.Number)
	}
	return strconv.FormatInt(a.Number, 10)
}

// Threshold is the minimum of a resource that must be left.
type Threshold struct {
	Signal Signal
	Min    Amount
	// Soft thresholds apply after Grace, and pods get a grace period. Hard ones
	// have no Grace.
	Soft  bool
	Grace time.Duration
	// Reclaim is how much more than Min must be left once the threshold was met.
	Reclaim Amount
}

// Settings are the configured thresholds: maps of signal to amount or duration.
type Settings struct {
	Hard, Soft, SoftGrace, MinReclaim map[string]string
}

// ErrThreshold is wrapped by errors of settings.
var ErrThreshold = errors.New("not a valid eviction threshold")

// SettingError is an error of one of the settings.
type SettingError struct {
	// Setting is its index in the names of Parse, and Name that name.
	Setting       int
	Name, Message string
}

func (e *SettingError) Error() string { return e.Name + ": " + e.Message }

// Parse reads settings. names are those of Hard, Soft, SoftGrace and MinReclaim for messages. The
// error joins a SettingError for each fault.
func (s Settings) Parse(names [4]string) ([]Threshold, error) {
	var list []Threshold
	var errs []error
	fail := func(i int, signal string, format string, args ...any) {
		errs = append(errs, &SettingError{i, names[i], signal + ": " + fmt.Sprintf(format, args...)})
	}
	known := func(i int, name string) (Signal, bool) {
		signal, ok := signalNamed(name)
		if !ok {
			fail(i, name, "unknown signal; must be one of %s", strings.Join(SignalNames(), ", "))
		}
		return signal, ok
	}
	reclaim := map[Signal]Amount{}
	for _, name := range slices.Sorted(maps.Keys(s.MinReclaim)) {
		if signal, ok := known(3, name); ok {
			amount, err := parseAmount(s.MinReclaim[name], signal)
			if err != nil {
				fail(3, name, "%v", err)
			}
			reclaim[signal] = amount
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Hard)) {
		if signal, ok := known(0, name); ok {
			amount, err := parseAmount(s.Hard[name], signal)
			if err != nil {
				fail(0, name, "%v", err)
			}
			list = append(list, Threshold{Signal: signal, Min: amount})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.SoftGrace)) {
		if _, ok := known(2, name); ok && s.Soft[name] == "" {
			fail(2, name, "there is no %s for it; add one, or take this out", names[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Soft)) {
		signal, ok := known(1, name)
		if !ok {
			continue
		}
		amount, err := parseAmount(s.Soft[name], signal)
		if err != nil {
			fail(1, name, "%v", err)
		}
		grace, err := time.ParseDuration(s.SoftGrace[name])
		switch {
		case s.SoftGrace[name] == "":
			fail(1, name, "needs its time in %s, such as 1m30s", names[2])
		case err != nil || grace < 0:
			fail(2, name, "%q is no duration; write one such as 1m30s", s.SoftGrace[name])
		}
		list = append(list, Threshold{Signal: signal, Min: amount, Soft: true, Grace: grace})
	}
	var out []Threshold
	for _, t := range list {
		// As at the kubelet, 0 and 100% disable a threshold.
		if t.Min == (Amount{}) || t.Min.Percent >= 100 {
			continue
		}
		t.Reclaim = reclaim[t.Signal]
		out = append(out, t)
		if t.Signal == MemoryAvailable && !t.Soft {
			// The memory of all pods together runs short like that of the node.
			t.Signal = AllocatableMemory
			out = append(out, t)
		}
	}
	return out, errors.Join(errs...)
}

func parseAmount(text string, s Signal) (Amount, error) {
	example := "500Mi or 10%"
	if !s.isMemory() && s != NodeFSAvailable && s != ImageFSAvailable {
		example = "1000 or 5%"
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || percent < 0 || percent > 100 || math.IsNaN(percent) {
			return Amount{}, fmt.Errorf("%q is %w; write one such as %s", text, ErrThreshold, example)
		}
		return Amount{Percent: percent}, nil
	}
	quantity, err := resource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 {
		return Amount{}, fmt.Errorf("%q is %w; write one such as %s", text, ErrThreshold, example)
	}
	return Amount{Number: quantity.Value()}, nil
}

// HardMin returns what the hard thresholds keep of a capacity.
func HardMin(list []Threshold, s Signal, capacity int64) (least int64) {
	for _, t := range list {
		if t.Signal == s && !t.Soft {
			least = max(least, t.Min.ForCapacity(capacity))
		}
	}
	return least
}

// HighestMin returns the threshold of the signals, hard or soft, that keeps the most of a capacity; false without one.
func HighestMin(list []Threshold, capacity int64, signals ...Signal) (highest Threshold, ok bool) {
	for _, t := range list {
		if slices.Contains(signals, t.Signal) &&
			(!ok || t.Min.ForCapacity(capacity) > highest.Min.ForCapacity(capacity)) {
			highest, ok = t, true
		}
	}
	return highest, ok
}
