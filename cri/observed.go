package cri

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// State is the state of a container as the runtime tells it.
type State uint8

// The states of a container. The zero value is StateUnknown.
const (
	StateUnknown State = iota
	StateCreated
	StateRunning
	StateExited
)

// String is the state's name in logs.
func (s State) String() string {
	switch s {
	case StateCreated:
		return "created"
	case StateRunning:
		return "running"
	case StateExited:
		return "exited"
	}
	return "unknown"
}

// Sandbox is one pod sandbox as observed.
type Sandbox struct {
	ID        string
	Attempt   uint32
	Ready     bool
	CreatedAt time.Time
	// HostNetwork and IPs are filled by PodStatus only, not by a list.
	HostNetwork bool
	IPs         []string
	// RuntimeHandler is the one it runs under, empty for the runtime's default.
	RuntimeHandler string
	// Annotations are the pod's at the time the sandbox was made.
	Annotations map[string]string
}

// CgroupParent is the pod's cgroup in which the sandbox was made, empty if it
// was made without one.
func (s *Sandbox) CgroupParent() string { return s.Annotations[AnnotationCgroupParent] }

// Container is one container instance as observed. A list fills ID, Name,
// SandboxID, State, CreatedAt and the values recovered from labels and
// annotations; PodStatus fills all.
type Container struct {
	ID        string
	Name      string
	SandboxID string
	State     State
	CreatedAt time.Time
	// StartedAt and FinishedAt are zero until it happened.
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	// Reason and Message are the runtime's, but for the termination message
	// that the runtime does not read: PodStatus puts it into Message.
	Reason  string
	Message string
	// Image is the reference asked for, ImageRef the runtime's resolved one.
	Image    string
	ImageRef string
	LogPath  string
	// StopSignal asks it to end: its own, the image's or the runtime's usual
	// one. Empty if the runtime does not tell.
	StopSignal v1.Signal

	// What follows is recovered from annotations that this package wrote.

	// Hash is the hash of the container's definition at creation.
	Hash string
	// Resources are those at creation, nil if they were not written down.
	Resources *Resources
	// RestartCount counts earlier instances of this container in this pod.
	RestartCount int
	// TerminationGracePeriod is the pod's in seconds at creation, nil if unset.
	TerminationGracePeriod *int64
	TerminationMessagePath string
	TerminationMessageHost string // file on the host, empty if none
	TerminationPolicy      v1.TerminationMessagePolicy
	// PreStop is the hook that comes before its end, nil if there is none;
	// Ports are filled beside it.
	PreStop *v1.LifecycleHandler
	Ports   []v1.ContainerPort
	// Sidecar is one more than a sidecar's index in spec.initContainers, 0 of
	// any other container.
	Sidecar int
	// Objects is what the Inputs said of the objects it was made of.
	Objects string
}

// Pod is what one list of the runtime shows of one pod.
type Pod struct {
	UID       types.UID
	Name      string
	Namespace string
	// Source is the annotation kubernetes.io/config.source of the newest
	// sandbox, empty if there is none.
	Source string
	// Sandboxes and Containers, each newest first.
	Sandboxes  []Sandbox
	Containers []Container
}

// FullName is namespace/name, as it is shown to people.
func (p *Pod) FullName() string { return p.Namespace + "/" + p.Name }

// Running reports whether a container of the pod may still run or a sandbox
// of it is ready.
func (p *Pod) Running() bool {
	for _, s := range p.Sandboxes {
		if s.Ready {
			return true
		}
	}
	for _, c := range p.Containers {
		if c.State == StateRunning || c.State == StateUnknown {
			return true
		}
	}
	return false
}

// Observed is one full list of the runtime. It is shared and must not be
// written to. A pod in which nothing changed since the client's last list is
// the same *Pod as there.
type Observed struct {
	// Own are the pods with this daemon's instance label.
	Own []*Pod
	// Foreign are pods of other clients (a kubelet's, another podstead's, a
	// crictl user's). They are looked at, never touched, and hold no more
	// than IDs, names, states and times.
	Foreign []*Pod
	// At is the time at which the list was asked for.
	At time.Time
}

// PodStatus is everything observed of one pod at one time. It is shared and
// must not be written to.
type PodStatus struct {
	UID       types.UID
	Name      string
	Namespace string
	// Sandboxes and Containers, each newest first.
	Sandboxes  []Sandbox
	Containers []Container
	// IPs are the addresses of the newest ready sandbox that has any.
	IPs []string
	// At is the time at which the runtime was asked. The status shows
	// everything that happened before.
	At time.Time
}

// Newest is the newest instance of the named container, or nil.
func (s *PodStatus) Newest(name string) *Container {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// Pod is the status as a list would show it.
func (s *PodStatus) Pod() *Pod {
	pod := &Pod{UID: s.UID, Name: s.Name, Namespace: s.Namespace, Sandboxes: s.Sandboxes, Containers: s.Containers}
	if len(s.Sandboxes) > 0 {
		pod.Source = s.Sandboxes[0].Annotations[podinfo.AnnotationSource]
	}
	return pod
}

// EventKind is the kind of a container event of the runtime's stream.
type EventKind uint8

// The kinds of runtime events.
const (
	EventCreated EventKind = iota + 1
	EventStarted
	EventStopped
	EventDeleted
)

// Event is a hint that something of a pod changed. It is never a status.
type Event struct {
	Kind EventKind
	// UID of the pod; empty if the runtime did not say.
	UID types.UID
	// ContainerID is a container's or a sandbox's.
	ContainerID string
	// Foreign tells that the pod is another client's.
	Foreign bool
}
