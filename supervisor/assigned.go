package supervisor

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// retainAssigned releases the CPUs and the memory of pods that ended while no daemon ran.
func (s *Supervisor) retainAssigned(observed *cri.Observed) {
	var inRuntime map[types.UID]bool
	s.cfg.Runtime.Assigned.Retain(func(uid types.UID) bool {
		if inRuntime == nil {
			inRuntime = podUIDs(observed)
		}
		return inRuntime[uid] || s.workers.State(uid) != podworkers.None
	})
}
