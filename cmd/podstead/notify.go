package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// stopSlack is what the daemon itself may need to end.
const stopSlack = 10 * time.Second

// watchdog tells systemd that the daemon lives, twice in each interval that
// the unit's WatchdogSec gives, as long as it is healthy. A daemon that
// systemd does not watch has nothing to do here.
func watchdog(ctx context.Context, healthy func() error, log *slog.Logger) error {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("cannot read the watchdog's interval; systemd will not be answered", "error", err)
		return nil
	}
	if interval == 0 {
		return nil
	}
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := healthy(); err != nil {
				log.Error("the sync loop hangs; systemd's watchdog will restart podstead", "error", err)
				continue
			}
			notify(daemon.SdNotifyWatchdog, log)
		}
	}
}

// notify sends one state to systemd, if it listens.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("cannot notify systemd", "state", state, "error", err)
	}
}
