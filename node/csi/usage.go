package csi

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/podstead/podstead/internal/usage"
)

// Usage asks the driver of the volume that is published at a path for its usage and its condition. The
// result is nil if the driver reports none, or no volume is published there.
func (m *Manager) Usage(ctx context.Context, path string) (*usage.ClaimVolume, error) {
	if !strings.HasPrefix(path, m.podsDir()+"/") {
		return nil, nil // also while the record cannot be read
	}
	r, err := m.publishedAt(path)
	if r == nil || err != nil {
		return nil, err
	}
	d, err := m.driverFor(r.Driver)
	if err != nil || !d.capabilities[capabilityStats] {
		return nil, err
	}
	response := statsResponse{usage: usage.ClaimVolume{Filesystem: usage.Filesystem{At: time.Now()}}}
	if err := d.call(ctx, "NodeGetVolumeStats", &statsRequest{volumeID: r.Handle, path: path, stagingPath: r.StagingPath},
		&response); err != nil {
		return nil, fmt.Errorf("failed to read the usage of volume %s: %w", r.Handle, err)
	}
	if !d.capabilities[capabilityCondition] {
		response.usage.Condition = nil
	}
	if !response.hasBytes {
		return nil, nil // measured like another volume
	}
	return &response.usage, nil
}

// publishedAt returns a copy of the record of the volume that is published at a path; nil if there is none.
func (m *Manager) publishedAt(path string) (*record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.load(); err != nil {
		return nil, err
	}
	for _, r := range m.state.Volumes {
		for _, p := range r.Pods {
			if p.Published && p.Target == path {
				found := *r
				return &found, nil
			}
		}
	}
	return nil, nil
}
