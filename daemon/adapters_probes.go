package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
	v1 "k8s.io/api/core/v1"
)

// execSlack is how long after its timeout the runtime may take to kill a command and
// report it. A runtime that takes longer says nothing about the container. (The
// kubelet counts that as a failed probe, and restarts all containers after the
// runtime was hung.)
const execSlack = 10 * time.Second

// maxProbeOutput is how much the command of a probe may print, in bytes. Much less is
// shown, but all probes of a node may run at once, and the whole output is in memory.
const maxProbeOutput = 256 << 10

// maxHookOutput is how much the command of a hook may print, in bytes. The hooks of many
// containers run at once too, but more of them print, as installers do.
const maxHookOutput = 1 << 20

// containerExec runs the commands of probes and hooks over CRI. The runtime enforces
// their timeout.
type containerExec struct {
	client *cri.Client
	// maxOutput is how much a command may print, in bytes; 0 is the limit of the
	// runtime.
	maxOutput int
}

// Exec implements probe.Execer.
func (e containerExec) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (probe.ExecResult, error) {
	asked := time.Now()
	exec := e.client.ExecSync
	if e.maxOutput > 0 {
		exec = func(ctx context.Context, id string, command []string, timeout time.Duration) (cri.ExecResult, error) {
			return e.client.ExecBounded(ctx, id, command, timeout, e.maxOutput)
		}
	}
	r, err := exec(ctx, id, command, timeout)
	switch {
	case errors.Is(err, cri.ErrOutputTooLarge):
		return probe.ExecResult{}, fmt.Errorf("%w: print less than %d KiB", err, e.maxOutput>>10)
	case errors.Is(err, cri.ErrTimeout) && ctx.Err() == nil && time.Since(asked) < timeout+execSlack:
		return probe.ExecResult{TimedOut: true}, nil
	case err != nil:
		return probe.ExecResult{}, err
	}
	return probe.ExecResult{Output: slices.Concat(r.Stdout, r.Stderr), ExitCode: r.ExitCode}, nil
}

// lifecycleHooks runs the hooks of containers with the actions of probes.
type lifecycleHooks struct{ actions *probe.Hooks }

// Run implements cri.Hooks.
func (h lifecycleHooks) Run(ctx context.Context, hook cri.Hook) error {
	return h.actions.Run(ctx, probe.Hook{
		Handler: hook.Handler, Container: &v1.Container{Name: hook.Name, Ports: hook.Ports}, ID: hook.ContainerID, IP: hook.IP,
	})
}
