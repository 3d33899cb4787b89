package supervisor

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/volume"
)

// CSI publishes volumes of CSI drivers. Implemented by csi.Manager.
type CSI interface {
	volume.CSI
	// Changed receives after a driver registered for which pods wait. TakeChanged returns these pods.
	Changed() <-chan struct{}
	TakeChanged() []types.UID
}

// csiChanged is Changed of the drivers; nil, which never receives, without them.
func (s *Supervisor) csiChanged() <-chan struct{} {
	if s.cfg.CSI == nil {
		return nil
	}
	return s.cfg.CSI.Changed()
}
