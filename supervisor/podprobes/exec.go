package podprobes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
)

// execSlack is how long after its timeout the runtime may take to kill a command and
// report it. A runtime that takes longer reports nothing about the container. (The
// kubelet counts that as a failed probe, and restarts all containers after the
// runtime was hung.)
const execSlack = 10 * time.Second

// MaxProbeOutput is how much the command of a probe may print, in bytes. Much less is
// shown, but all probes of a node may run at once, and the whole output is in memory.
const MaxProbeOutput = 256 << 10

// MaxHookOutput is how much the command of a hook may print, in bytes. The hooks of many
// containers run at once too, but more of them print, as installers do.
const MaxHookOutput = 1 << 20

// Exec runs the commands of probes and hooks over CRI. The runtime enforces
// their timeout.
type Exec struct {
	Client *cri.Client
	// MaxOutput is how much a command may print, in bytes.
	MaxOutput int
}

// Exec implements probe.Execer.
func (e Exec) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (probe.ExecResult, error) {
	asked := time.Now()
	r, err := e.Client.ExecBounded(ctx, id, command, timeout, e.MaxOutput)
	switch {
	case errors.Is(err, cri.ErrOutputTooLarge):
		return probe.ExecResult{}, fmt.Errorf("%w: print less than %d KiB", err, e.MaxOutput>>10)
	case errors.Is(err, cri.ErrTimeout) && ctx.Err() == nil && time.Since(asked) < timeout+execSlack:
		return probe.ExecResult{TimedOut: true}, nil
	case err != nil:
		return probe.ExecResult{}, err
	}
	return probe.ExecResult{Output: slices.Concat(r.Stdout, r.Stderr), ExitCode: r.ExitCode}, nil
}

// Hooks runs the hooks of containers with the actions of probes.
type Hooks struct{ Actions *probe.Hooks }

// Run implements cri.Hooks.
func (h Hooks) Run(ctx context.Context, hook cri.Hook) error {
	return h.Actions.Run(ctx, probe.Hook{
		Handler: hook.Handler, Container: &v1.Container{Name: hook.Name, Ports: hook.Ports}, ID: hook.ContainerID,
		IP: hook.IP,
	})
}
