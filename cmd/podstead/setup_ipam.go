package main

import (
	"context"
	"time"

	"github.com/podstead/podstead/internal/wallclock"
	"github.com/podstead/podstead/node/ipam"
)

// freeLeases frees the addresses that a power cut left reserved. It runs once, at the start.
func (d *daemon) freeLeases(context.Context) error {
	now, known := wallclock.Now()
	if !known {
		return nil
	}
	freed, err := ipam.FreeEmpty(ipam.Directory, time.Now().Add(-now.Up))
	if err != nil {
		d.log.Warn("Failed to free addresses that a power cut left reserved", "err", err)
	}
	if len(freed) > 0 {
		d.log.Info("Freed addresses that a power cut left reserved", "files", freed)
	}
	return nil
}
