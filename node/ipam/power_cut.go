package ipam

import (
	"log/slog"
	"time"

	"github.com/podstead/podstead/internal/wallclock"
)

// FreeAfterPowerCut frees the addresses that a power cut left reserved, and removes the results of the
// network that it left empty. It is called once, at the start.
func FreeAfterPowerCut(log *slog.Logger) {
	now, known := wallclock.Now()
	if !known {
		return
	}
	boot := time.Now().Add(-now.Up)
	freed, err := FreeEmpty(Directory, boot)
	if err != nil {
		log.Warn("Failed to free addresses that a power cut left reserved", "err", err)
	}
	if len(freed) > 0 {
		log.Info("Freed addresses that a power cut left reserved", "files", freed)
	}
	removed, err := RemoveEmptyResults(ResultsDirectory, boot)
	if err != nil {
		log.Warn("Failed to remove network results that a power cut left empty", "err", err)
	}
	if len(removed) > 0 {
		log.Info("Removed network results that a power cut left empty", "files", removed)
	}
}
