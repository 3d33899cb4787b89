package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
)

// containerExec lets probes run commands over CRI, where the runtime ends
// those that take too long.
type containerExec struct{ client *cri.Client }

// Exec is probe.Execer's.
func (e containerExec) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (probe.ExecResult, error) {
	r, err := e.client.ExecSync(ctx, id, command, timeout)
	switch {
	case errors.Is(err, cri.ErrTimeout) && ctx.Err() == nil:
		return probe.ExecResult{TimedOut: true}, nil
	case err != nil:
		return probe.ExecResult{}, err
	}
	return probe.ExecResult{Output: slices.Concat(r.Stdout, r.Stderr), ExitCode: r.ExitCode}, nil
}
