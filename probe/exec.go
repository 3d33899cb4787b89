package probe

import (
	"context"
	"fmt"
)

// probeExec runs a command in the container. It succeeds with exit code 0.
func (a *actions) probeExec(ctx context.Context, q probeRequest) (probeResult, error) {
	r, err := a.exec.Exec(ctx, q.id, q.probe.Exec.Command, q.timeout)
	switch {
	case err != nil:
		return probeResult{}, err
	case r.TimedOut:
		return failedResult(fmt.Sprintf("command timed out: %q did not end within %s", q.probe.Exec.Command, q.timeout)), nil
	}
	output := string(r.Output[:min(len(r.Output), maxOutput)])
	if r.ExitCode != 0 && output == "" {
		output = fmt.Sprintf("command exited with %d", r.ExitCode)
	}
	return probeResult{ok: r.ExitCode == 0, text: output}, nil
}
