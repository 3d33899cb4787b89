package daemon

import (
	"context"
	"fmt"
	"log/slog"

	sddaemon "github.com/coreos/go-systemd/v22/daemon"

	"github.com/podstead/podstead/node/shutdown"
)

// awaitStop returns when the daemon has to stop: when ctx ends, or when a signal
// requested it (requested ends). If the host is shutting down, it first waits for
// the pods to end.
func awaitStop(ctx, requested context.Context, guard *shutdown.Guard, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-requested.Done():
	}
	if guard == nil {
		return
	}
	// The unit may allow less time; systemd grants the time that is requested here.
	notify(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", sddaemon.SdNotifyStopping, (guard.MaxDuration()+stopSlack).Microseconds()), log)
	guard.Finish(ctx)
}
