package volume

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// expandCSI lets the driver grow the file system of a volume whose declared capacity is larger than the one
// that it had when it was bound or last grew.
func (s *setup) expandCSI(ctx context.Context, c *claimVolume, v *csivolume.Volume, bound *binding.Binding) error {
	if v.ReadOnly {
		return nil
	}
	for _, declared := range s.req.Objects.Volumes() {
		size := declared.Spec.Capacity.Storage()
		source := declared.Spec.CSI
		if declared.Name != bound.Volume.Name || source == nil || source.Driver != v.Driver ||
			source.VolumeHandle != v.Handle ||
			size.Cmp(*bound.Volume.Spec.Capacity.Storage()) <= 0 {
			continue
		}
		if err := s.expand(ctx, c, v, size.Value()); err != nil {
			return err
		}
		return s.recordCapacity(bound, *size)
	}
	return nil
}

// recordCapacity records the capacity of the volume to which a claim is bound.
func (s *setup) recordCapacity(bound *binding.Binding, size resource.Quantity) error {
	s.claims.Lock()
	defer s.claims.Unlock()
	now, err := s.bindingOf(bound.Namespace, bound.Claim)
	if err != nil || now == nil || now.Volume.Name != bound.Volume.Name {
		return err
	}
	now.Volume = now.Volume.DeepCopy() // readers of the bindings share it
	now.Volume.Spec.Capacity[v1.ResourceStorage] = size
	return s.saveBinding(now)
}

// expandForCluster lets the driver expand a volume that a controller of the cluster has expanded, and reports
// to the cluster how that ended.
func (s *setup) expandForCluster(ctx context.Context, c *claimVolume, v *csivolume.Volume, _ *binding.Binding) error {
	bytes := s.req.Cluster.CSIExpansion(s.req.Pod, c.declared)
	if bytes == 0 || v.ReadOnly {
		return nil
	}
	err := s.expand(ctx, c, v, bytes)
	if ctx.Err() == nil {
		s.req.Cluster.CSIExpanded(s.req.Pod, c.declared, bytes, err)
	}
	return err
}

// expand lets the driver expand a volume.
func (s *setup) expand(ctx context.Context, c *claimVolume, v *csivolume.Volume, bytes int64) error {
	expanded, err := s.CSI.Expand(ctx, v, bytes)
	if expanded {
		s.expanded = append(s.expanded,
			fmt.Sprintf("NodeExpandVolume succeeded for volume %q : CSI driver %s has expanded volume %s to %d bytes", c.name,
				v.Driver, v.Handle, bytes))
	}
	return err
}
