package shutdown

import (
	"context"
	"log/slog"
	"time"

	"github.com/podstead/podstead/internal/systemd"
)

// stopSlack is the time that the daemon itself may need to stop.
const stopSlack = 10 * time.Second

// AwaitStop returns when the daemon has to stop: when ctx ends, or when a signal
// requested it (requested ends). If the host is shutting down, it first waits for
// the pods to end. guard is nil if no pods are terminated before a shutdown.
func AwaitStop(ctx, requested context.Context, guard *Guard, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-requested.Done():
	}
	if guard == nil {
		return
	}
	// The unit may allow less time; systemd grants the time that is requested here.
	systemd.Notify(systemd.StoppingFor(guard.MaxDuration()+stopSlack), log)
	guard.Finish(ctx)
}
