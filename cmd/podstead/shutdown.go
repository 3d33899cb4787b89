package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/podstead/podstead/cmd/podstead/options"
	"github.com/podstead/podstead/node/shutdown"
	"github.com/podstead/podstead/supervisor"
)

// newGuard makes what ends pods before the host goes down, nil if nothing does.
func newGuard(o *options.Options, sup *supervisor.Supervisor, log *slog.Logger) *shutdown.Guard {
	if len(o.Shutdown.Policy) == 0 || o.RunOnce {
		return nil
	}
	return shutdown.New(shutdown.Config{
		Policy: o.Shutdown.Policy, Logind: shutdown.SystemLogind{DropIn: shutdown.DropIn}, Pods: sup, Log: log,
	})
}

// untilDone ends the rest of the daemon when it is asked to by a signal, which
// is what asked ends with: at once, but when the host goes down not before pods
// have ended.
func untilDone(ctx, asked context.Context, guard *shutdown.Guard, log *slog.Logger) {
	select {
	case <-ctx.Done():
		return
	case <-asked.Done():
	}
	if guard == nil {
		return
	}
	// For whoever started it with less time; systemd gives it what it asks for.
	notify(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d", daemon.SdNotifyStopping, (guard.Patience()+stopSlack).Microseconds()), log)
	guard.Finish(ctx)
}
