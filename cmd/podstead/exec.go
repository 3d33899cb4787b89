package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
)

// execSlack is how long after its timeout the runtime may take to end a command
// and say so. A runtime that stays silent longer says nothing about the
// container; the kubelet takes it for a failed probe, and restarts all of them
// when a runtime has hung.
const execSlack = 10 * time.Second

// containerExec lets probes run commands over CRI, where the runtime ends
// those that take too long.
type containerExec struct{ client *cri.Client }

// Exec is probe.Execer's.
func (e containerExec) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (probe.ExecResult, error) {
	asked := time.Now()
	r, err := e.client.ExecSync(ctx, id, command, timeout)
	switch {
	case errors.Is(err, cri.ErrTimeout) && ctx.Err() == nil && time.Since(asked) < timeout+execSlack:
		return probe.ExecResult{TimedOut: true}, nil
	case err != nil:
		return probe.ExecResult{}, err
	}
	return probe.ExecResult{Output: slices.Concat(r.Stdout, r.Stderr), ExitCode: r.ExitCode}, nil
}
