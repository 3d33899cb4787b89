package main

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
)

// lifecycleHooks lets the syncer perform hooks by the actions of probes.
type lifecycleHooks struct{ actions *probe.Hooks }

// Run is cri.Hooks's.
func (h lifecycleHooks) Run(ctx context.Context, hook cri.Hook) error {
	return h.actions.Run(ctx, probe.Hook{
		Handler: hook.Handler, Container: &v1.Container{Name: hook.Name, Ports: hook.Ports}, ID: hook.ContainerID, IP: hook.IP,
	})
}
