package supervisor

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/admit"
)

// hostPorts knows who has which ports of the host. A pod has its own from when
// it may start until everything of it has ended. The zero value is ready.
type hostPorts struct {
	mu      sync.Mutex
	holders map[types.UID]*v1.Pod
}

// hold gives a pod its ports, whoever else has them: it runs with them.
func (h *hostPorts) hold(pod *v1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.put(pod)
}

func (h *hostPorts) put(pod *v1.Pod) {
	if len(admit.HostPorts(pod)) == 0 {
		delete(h.holders, pod.UID)
		return
	}
	if h.holders == nil {
		h.holders = map[types.UID]*v1.Pod{}
	}
	h.holders[pod.UID] = pod
}

// take gives a pod its ports, or is why it cannot have them. Those of running
// are taken too: after a restart of the daemon none of them has said so yet.
func (h *hostPorts) take(pod *v1.Pod, running []*v1.Pod) *admit.Refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, holder := range h.holders {
		running = append(running, holder)
	}
	for _, other := range running {
		if other.UID == pod.UID {
			continue
		}
		if refusal := admit.PortTaken(pod, other); refusal != nil {
			return refusal
		}
	}
	h.put(pod)
	return nil
}

// release reports whether the pod had any.
func (h *hostPorts) release(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, had := h.holders[uid]
	delete(h.holders, uid)
	return had
}

// runningPods are the wanted pods of which something runs.
func runningPods(wanted []*v1.Pod, all *cri.Observed) []*v1.Pod {
	runs := map[types.UID]bool{}
	for _, pod := range all.Own {
		runs[pod.UID] = runs[pod.UID] || pod.Running()
	}
	var running []*v1.Pod
	for _, pod := range wanted {
		if runs[pod.UID] {
			running = append(running, pod)
		}
	}
	return running
}
