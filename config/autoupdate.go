package config

import (
	"fmt"
	"time"

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

func (a *AutoUpdate) settings() []setting {
	return []setting{
		{
			flag: "image-auto-update-interval", own: "imageAutoUpdateInterval",
			value: durationOrZero(&a.Interval, defaultAutoUpdate),
			check: between(&a.Interval, minAutoUpdate, maxAutoUpdate, fmt.Sprintf("must be from %s to %s, such as 24h",
				minAutoUpdate, maxAutoUpdate)),
			help: "`interval` of checks for newer images of pods with the annotation podstead.io/auto-update",
		},
		{
			flag: "image-auto-update-window", own: "imageAutoUpdateWindows", value: list(&a.windows),
			check: func(s *setting) {
				for _, text := range a.windows {
					w, err := maintenance.ParseWindow(text)
					if err != nil {
						s.fail(": %w", err)
					}
					a.Windows = append(a.Windows, w)
				}
			},
			help: "maintenance `window` outside which no image is updated, as [DAYS ]HH:MM-HH:MM in local time, such as " +
				"\"Sat,Sun 02:00-05:00\"; can be repeated (default: at any time)",
		},
	}
}
