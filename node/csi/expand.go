package csi

import (
	"context"
	"fmt"

	"github.com/podstead/podstead/internal/csivolume"
)

// Expand lets a driver grow the file system of a volume that is published for a pod to its capacity in
// bytes. A driver that has nothing to do on the node is not called.
func (m *Manager) Expand(ctx context.Context, v *csivolume.Volume, bytes int64) error {
	d, err := m.driverFor(v.Driver)
	if err != nil || !d.capabilities[capabilityExpand] {
		return err
	}
	unlock, err := m.lock(ctx, v.Driver, v.Handle)
	if err != nil {
		return err
	}
	defer unlock()
	m.mu.Lock()
	r := m.state.find(v.Driver, v.Handle)
	var p *podRecord
	if r != nil {
		p = r.pod(v.Pod, v.Name)
	}
	m.mu.Unlock()
	if p == nil || !p.Published {
		return fmt.Errorf("volume %s of CSI driver %s is not published", v.Handle, v.Driver)
	}
	request := &expandRequest{volumeID: v.Handle, path: p.Target, stagingPath: r.StagingPath, bytes: bytes, capability: d.capability(v)}
	if v.Secrets != nil {
		secrets, err := v.Secrets()
		if err != nil {
			return err
		}
		request.secrets = secrets.Expand
	}
	return d.call(ctx, "NodeExpandVolume", request, &empty{})
}
