package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/podstead/podstead/internal/maintenance"
)

// AutoUpdate are the settings of image updates, for pods with the annotation
// podstead.io/auto-update.
type AutoUpdate struct {
	// Interval is the time between two checks of a pod.
	Interval time.Duration
	// Windows are the maintenance windows, none for any time.
	Windows []maintenance.Window

	windows []string
}

// defaultAutoUpdate is the interval of podman's timer.
const (
	defaultAutoUpdate = 24 * time.Hour
	minAutoUpdate     = time.Minute
	maxAutoUpdate     = 366 * 24 * time.Hour
)

func (a *AutoUpdate) addFlags(f *pflag.FlagSet) {
	f.DurationVar(&a.Interval, "image-auto-update-interval", defaultAutoUpdate, "`interval` of checks for newer images of pods with the annotation podstead.io/auto-update")
	f.StringArrayVar(&a.windows, "image-auto-update-window", nil, "maintenance `window` outside which no image is updated, as [DAYS ]HH:MM-HH:MM in local time, such as \"Sat,Sun 02:00-05:00\"; can be repeated (default: at any time)")
}

func (a *AutoUpdate) check() error {
	if a.Interval < minAutoUpdate || a.Interval > maxAutoUpdate {
		return fmt.Errorf("--image-auto-update-interval=%s: must be from %s to %s, such as 24h", a.Interval, minAutoUpdate, maxAutoUpdate)
	}
	a.Windows = nil
	for _, text := range a.windows {
		w, err := maintenance.ParseWindow(text)
		if err != nil {
			return fmt.Errorf("--image-auto-update-window: %w", err)
		}
		a.Windows = append(a.Windows, w)
	}
	return nil
}
