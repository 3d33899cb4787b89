package daemon

import (
	"context"
	"time"

	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/node/ipam"
)

// freeLeases frees the addresses that a power cut left reserved, and removes the results of the
// network that it left empty. It runs once, at the start.
func (d *daemon) freeLeases(context.Context) error {
	now, known := wallclock.Now()
	if !known {
		return nil
	}
	boot := time.Now().Add(-now.Up)
	freed, err := ipam.FreeEmpty(ipam.Directory, boot)
	if err != nil {
		d.log.Warn("Failed to free addresses that a power cut left reserved", "err", err)
	}
	if len(freed) > 0 {
		d.log.Info("Freed addresses that a power cut left reserved", "files", freed)
	}
	removed, err := ipam.RemoveEmptyResults(ipam.ResultsDirectory, boot)
	if err != nil {
		d.log.Warn("Failed to remove network results that a power cut left empty", "err", err)
	}
	if len(removed) > 0 {
		d.log.Info("Removed network results that a power cut left empty", "files", removed)
	}
	return nil
}
