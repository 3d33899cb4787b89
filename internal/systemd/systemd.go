package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"
)

// The states that a service reports.
const (
	Ready    = sddaemon.SdNotifyReady
	Stopping = sddaemon.SdNotifyStopping
)

// StoppingFor is Stopping with the time that the service needs until it has ended; its unit may allow less.
func StoppingFor(limit time.Duration) string {
	return fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", Stopping, limit.Microseconds())
}

// Watchdog notifies systemd twice in each interval of the unit's WatchdogSec, as
// long as the daemon is healthy. It returns at once if the unit sets no interval.
func Watchdog(ctx context.Context, healthy func() error, log *slog.Logger) error {
	interval, err := sddaemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("Failed to read the watchdog interval; systemd is not notified", "err", err)
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
				log.Error("Sync loop hangs; systemd's watchdog will restart podstead", "err", err)
				continue
			}
			Notify(sddaemon.SdNotifyWatchdog, log)
		}
	}
}

// Notify sends a state to systemd, if systemd started the daemon.
func Notify(state string, log *slog.Logger) {
	if _, err := sddaemon.SdNotify(false, state); err != nil {
		log.Warn("Failed to notify systemd", "state", state, "err", err)
	}
}
