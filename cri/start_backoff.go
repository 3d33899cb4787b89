package cri

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// The delays between attempts that fail before an instance exists, which the
// crash-loop back-off could count: a network that is not set up, a mount that
// fails. The kubelet retries whenever it syncs the pod, and a failed attempt
// itself causes a sync: it may retry twice a second for hours. Here the first
// retry comes with the next sync, as a lost reply requires; each later one waits,
// up to the kubelet's 10 s.
const (
	holdInitial = time.Second
	holdMax     = 10 * time.Second
)

// startBackoff delays attempts to create sandboxes and containers that keep
// failing. A changed manifest resets it. The zero value is ready to use.
type startBackoff struct {
	mu   sync.Mutex
	pods map[types.UID]map[string]*startFailure // by container name; "" is the sandbox
}

type startFailure struct {
	manifest string
	waiting  Waiting
	delay    time.Duration
	until    time.Time
}

// wait returns why and how long an attempt must still wait, nil if it need not.
func (h *startBackoff) wait(pod *v1.Pod, name string) *waitError {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.pods[pod.UID][name]
	if e == nil || e.manifest != pod.Annotations[podinfo.AnnotationHash] {
		return nil
	}
	rest := time.Until(e.until)
	if rest <= 0 {
		return nil
	}
	return &waitError{Waiting: e.waiting, retryAfter: rest}
}

// failed counts a failed attempt.
func (h *startBackoff) failed(pod *v1.Pod, name string, why Waiting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pods == nil {
		h.pods = map[types.UID]map[string]*startFailure{}
	}
	if h.pods[pod.UID] == nil {
		h.pods[pod.UID] = map[string]*startFailure{}
	}
	e := h.pods[pod.UID][name]
	manifest := pod.Annotations[podinfo.AnnotationHash]
	if e == nil || e.manifest != manifest {
		h.pods[pod.UID][name] = &startFailure{manifest: manifest, waiting: why}
		return
	}
	e.waiting = why
	e.delay = min(max(2*e.delay, holdInitial), holdMax)
	e.until = time.Now().Add(e.delay)
}

// succeeded resets the delay of one container or the sandbox.
func (h *startBackoff) succeeded(uid types.UID, name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods[uid], name)
}

func (h *startBackoff) forget(uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.pods, uid)
}
