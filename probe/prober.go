package probe

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/wakeup"
)

// Execer runs commands in containers.
type Execer interface {
	// Exec runs a command and waits until it ends. One that takes longer than
	// timeout is killed, which is a result and not an error; 0 means no timeout.
	Exec(ctx context.Context, containerID string, command []string, timeout time.Duration) (ExecResult, error)
}

// ExecResult is the result of a command.
type ExecResult struct {
	// Output is its standard output and standard error.
	Output   []byte
	ExitCode int32
	TimedOut bool
}

// Recorder records events.
type Recorder interface {
	Event(pod *v1.Pod, eventType, reason, message string)
}

// Config configures a Prober.
type Config struct {
	Exec   Execer
	Events Recorder
	// UserAgent is sent by HTTP and gRPC probes.
	UserAgent string
}

// Pod is a pod whose containers are probed.
type Pod struct {
	// Pod is the revision that events are about.
	Pod *v1.Pod
	// IP is the target of HTTP, TCP and gRPC probes unless they name a host.
	IP string
	// Containers are those that run now.
	Containers []Container
}

// Container is a running container.
type Container struct {
	// Spec has the probes and the named ports. It is not modified and does not
	// change while ID does not.
	Spec      *v1.Container
	ID        string
	StartedAt time.Time
	// Previous is the state that an earlier daemon recorded for this container;
	// nil if none. It is used when the container is first passed.
	Previous *PreviousState
}

// PreviousState is the last recorded state of a container.
type PreviousState struct{ Ready, Started bool }

// Prober probes the containers of pods.
type Prober struct {
	cfg     Config
	since   time.Time
	actions actions
	wake    wakeup.Signal
	changed wakeup.Signal

	mu    sync.Mutex
	pods  map[types.UID]*podProbes
	queue queue
	dirty map[types.UID]struct{}
}

// podProbes are the probes of one pod. Prober.mu guards them and everything
// below.
type podProbes struct {
	pod        *v1.Pod
	ip         string
	ending     bool
	containers map[string]*probedContainer
	// counts are by container and kind, over all instances.
	counts map[countKey]*Count
}

// probedContainer is one instance of a container, with its probes by kind.
type probedContainer struct {
	pod     *podProbes
	spec    *v1.Container
	id      string
	started time.Time
	workers [kinds]*worker
}

// New creates a prober. It starts nothing.
func New(cfg Config) *Prober {
	return &Prober{
		cfg:     cfg,
		since:   time.Now(),
		actions: newActions(cfg),
		wake:    wakeup.NewSignal(),
		changed: wakeup.NewSignal(),
		pods:    map[types.UID]*podProbes{},
		dirty:   map[types.UID]struct{}{},
	}
}

// UpdatePod passes the running containers of a pod. Probes of new containers
// start, those of containers that are no longer passed end.
func (p *Prober) UpdatePod(pod Pod) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := pod.Pod.UID
	own := p.pods[uid]
	if own == nil {
		own = &podProbes{containers: map[string]*probedContainer{}}
		p.pods[uid] = own
	}
	own.pod, own.ip = pod.Pod, pod.IP
	for id, c := range own.containers {
		if !containsID(pod.Containers, id) {
			p.endWorkers(c, Startup, Liveness, Readiness)
			delete(own.containers, id)
		}
	}
	for i := range pod.Containers {
		if c := &pod.Containers[i]; own.containers[c.ID] == nil {
			p.add(own, c)
		}
	}
}

func containsID(containers []Container, id string) bool {
	for i := range containers {
		if containers[i].ID == id {
			return true
		}
	}
	return false
}

// add starts the probes of a container, if it has any.
func (p *Prober) add(pod *podProbes, c *Container) {
	own := &probedContainer{pod: pod, spec: c.Spec, id: c.ID, started: c.StartedAt}
	for kind, spec := range [kinds]*v1.Probe{c.Spec.StartupProbe, c.Spec.LivenessProbe, c.Spec.ReadinessProbe} {
		if spec != nil {
			own.workers[kind] = newWorker(own, Kind(kind), spec, c.Previous)
			own.workers[kind].ended = pod.ending && Kind(kind) != Readiness
		}
	}
	pod.containers[c.ID] = own
	for _, w := range own.workers {
		if w != nil {
			p.scheduleFirst(w, p.jitter(w))
		}
	}
}

// jitter spreads the first probes of containers that an earlier daemon started,
// so that a node full of pods does not probe all at the same moment.
func (p *Prober) jitter(w *worker) time.Duration {
	if !w.container.started.Before(p.since) {
		return 0
	}
	return time.Duration(rand.Float64() * float64(w.period()))
}

// StopLivenessAndStartup ends the startup and liveness probes of a pod that is
// being terminated, so that its grace period is not cut short. Readiness probes
// continue, because traffic is still routed by them.
func (p *Prober) StopLivenessAndStartup(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod := p.pods[uid]; pod != nil && !pod.ending {
		pod.ending = true
		for _, c := range pod.containers {
			p.endWorkers(c, Startup, Liveness)
		}
	}
}

// RemovePod ends all probes of a pod and drops its results.
func (p *Prober) RemovePod(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pod := p.pods[uid]; pod != nil {
		for _, c := range pod.containers {
			p.endWorkers(c, Startup, Liveness, Readiness)
		}
		delete(p.pods, uid)
	}
}

// endWorkers ends probes of a container, also those in progress. Their last states are
// kept.
func (p *Prober) endWorkers(c *probedContainer, kinds ...Kind) {
	for _, kind := range kinds {
		if w := c.workers[kind]; w != nil {
			w.ended = true
			if w.cancel != nil {
				w.cancel()
			}
			p.queue.remove(w)
		}
	}
}
