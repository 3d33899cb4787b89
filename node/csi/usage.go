package csi

import (
	"context"
	"fmt"
)

// Amount is how much of a volume is used, in bytes or inodes. A driver may leave out what it does not
// know: it is 0 then.
type Amount struct{ Available, Total, Used uint64 }

// Usage is what a driver reports of a volume.
type Usage struct {
	// Bytes and Inodes are nil if the driver does not report them.
	Bytes, Inodes *Amount
	// Abnormal says what is wrong with the volume; empty is nothing.
	Abnormal string
}

// Usage asks the driver of the volume that is published at a path for its usage; nil if it reports none,
// or no volume is published there.
func (m *Manager) Usage(ctx context.Context, path string) (*Usage, error) {
	r, err := m.publishedAt(path)
	if r == nil || err != nil {
		return nil, err
	}
	d, err := m.driverFor(r.Driver)
	if err != nil || !d.capabilities[capabilityStats] {
		return nil, err
	}
	var answer statsResponse
	if err := d.call(ctx, "NodeGetVolumeStats", &statsRequest{volumeID: r.Handle, path: path, stagingPath: r.StagingPath}, &answer); err != nil {
		return nil, fmt.Errorf("failed to read the usage of volume %s: %w", r.Handle, err)
	}
	return &Usage{Bytes: answer.bytes, Inodes: answer.inodes, Abnormal: answer.abnormal}, nil
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
