package supervisor

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/csivolume"
	"github.com/podstead/podstead/supervisor/volume"
)

// CSI publishes volumes of CSI drivers. Implemented by csi.Manager.
type CSI interface {
	volume.CSI
	// Changed receives after a driver registered for which pods wait, and when a volume is to be published
	// again. TakeChanged returns these pods.
	Changed() <-chan struct{}
	TakeChanged() []types.UID
}

// handleCSI notifies the pods that wait for a driver, or whose volumes are to be published again.
func (s *Supervisor) handleCSI() {
	for _, uid := range s.cfg.Sources.CSI.TakeChanged() {
		s.workers.Notify(uid)
	}
}

// noCSI has no drivers.
type noCSI struct{}

func (noCSI) Publish(context.Context, *csivolume.Volume) (string, error) {
	return "", errors.New("this node has no CSI drivers")
}
func (noCSI) Republish(context.Context, *csivolume.Volume) error { return nil }
func (noCSI) Expand(context.Context, *csivolume.Volume, int64) (bool, error) {
	return false, nil
}
func (noCSI) Unpublish(context.Context, types.UID) error { return nil }
func (noCSI) Pods() ([]types.UID, error)                 { return nil, nil }
func (noCSI) Labeled(string) bool                        { return false }
func (noCSI) Changed() <-chan struct{}                   { return nil }
func (noCSI) TakeChanged() []types.UID                   { return nil }
