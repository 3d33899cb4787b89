package cri

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// State is the state of a container as the runtime reports it.
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
	// HostNetwork and IPs are set by PodStatus only, not by a list.
	HostNetwork bool
	IPs         []string
	// RuntimeHandler is the handler that it runs under, empty for the runtime's
	// default.
	RuntimeHandler string
	// Annotations and Labels are the pod's when the sandbox was created, and those of this
	// package; nil for a sandbox of another client.
	Annotations, Labels map[string]string
}

// CgroupParent returns the pod cgroup in which the sandbox was created, empty if
// it was created without one.
func (s *Sandbox) CgroupParent() string { return s.Annotations[AnnotationCgroupParent] }

// Container is one container instance as observed. A list sets ID, Name,
// SandboxID, State, CreatedAt and the values recovered from labels and
// annotations; PodStatus sets all. It is one flat record, beyond the usual number
// of fields, because its readers do not care which call or annotation a value
// came from.
type Container struct {
	ID        string
	Name      string
	SandboxID string
	State     State
	CreatedAt time.Time
	// StartedAt and FinishedAt are zero until the container has started or
	// finished.
	StartedAt  time.Time
	FinishedAt time.Time
	ExitCode   int32
	// Reason and Message are the runtime's. PodStatus adds the termination
	// message, which the runtime does not read, to Message.
	Reason  string
	Message string
	// Image is the requested reference, ImageRef the runtime's resolved one.
	Image    string
	ImageRef string
	LogPath  string
	// StopSignal is the signal that asks the container to stop: its own, the
	// image's or the runtime's default. Empty if not reported by the runtime.
	StopSignal v1.Signal
	// User is the identity of the container's first process, nil if not reported by
	// the runtime (containerd before 2.0).
	User *LinuxUser
	// RecursiveReadOnly are the paths in the container of the mounts that the
	// runtime has made recursively read-only.
	RecursiveReadOnly []string

	// The following fields are recovered from annotations that this package
	// wrote.

	// Hash is the hash of the container's definition at creation.
	Hash string
	// Resources are those at creation, nil if they were not recorded.
	Resources *Resources
	// RestartCount is the number of earlier instances of this container in this
	// pod.
	RestartCount int
	// TerminationGracePeriod is the pod's in seconds at creation, nil if unset.
	TerminationGracePeriod *int64
	TerminationMessagePath string
	TerminationMessageHost string // file on the host, empty if none
	TerminationPolicy      v1.TerminationMessagePolicy
	// PreStop is the container's preStop hook, nil if it has none. Ports are set
	// only with it.
	PreStop *v1.LifecycleHandler
	Ports   []v1.ContainerPort
	// Sidecar is one more than a sidecar's index in spec.initContainers, 0 for
	// any other container.
	Sidecar int
	// Objects is the value of Inputs.Objects at creation.
	Objects string
}

// LinuxUser is the identity with which a process starts.
type LinuxUser struct {
	UID, GID           int64
	SupplementalGroups []int64
}

// Pod is what one list of the runtime contains of one pod.
type Pod struct {
	UID       types.UID
	Name      string
	Namespace string
	// Source is the annotation kubernetes.io/config.source of the newest sandbox,
	// empty if it has none.
	Source string
	// Sandboxes and Containers, each newest first.
	Sandboxes  []Sandbox
	Containers []Container
}

// FullName returns namespace/name.
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

// Observed is one full list of the runtime. It is shared and must not be written
// to. A pod that has not changed since the client's last list is the same *Pod.
type Observed struct {
	// Own are the pods with this daemon's instance label.
	Own []*Pod
	// Foreign are pods of other clients (a kubelet, another podstead, a user of
	// crictl). They are observed and never changed, and hold only IDs, names with
	// their attempts, states and times.
	Foreign []*Pod
	// At is the time at which the list was requested.
	At time.Time
}

// PodStatus is everything observed of one pod at one time. It is shared and must
// not be written to.
type PodStatus struct {
	UID       types.UID
	Name      string
	Namespace string
	// Sandboxes and Containers, each newest first.
	Sandboxes  []Sandbox
	Containers []Container
	// IPs are the addresses of the newest ready sandbox that has any.
	IPs []string
	// At is the time at which the runtime was asked. The status reflects
	// everything that happened before.
	At time.Time
}

// Newest returns the newest instance of the named container, or nil.
func (s *PodStatus) Newest(name string) *Container {
	for i := range s.Containers {
		if s.Containers[i].Name == name {
			return &s.Containers[i]
		}
	}
	return nil
}

// container returns the instance with an ID, or nil.
func (s *PodStatus) container(id string) *Container {
	for i := range s.Containers {
		if s.Containers[i].ID == id {
			return &s.Containers[i]
		}
	}
	return nil
}

// Pod returns the status in the form of a list.
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

// Event is a hint that something in a pod changed. It is never a status.
type Event struct {
	Kind EventKind
	// UID is the pod's; empty if the runtime did not report it.
	UID types.UID
	// ContainerID is a container's or a sandbox's.
	ContainerID string
	// Foreign reports that the pod is another client's.
	Foreign bool
}

// HasReadySandbox reports whether the pod has a ready sandbox.
func (s *PodStatus) HasReadySandbox() bool { return s.ReadySandbox() != nil }

// CgroupParent returns the cgroup of the newest ready sandbox, empty if there is none or if
// it was created without.
func (s *PodStatus) CgroupParent() string {
	if sandbox := s.ReadySandbox(); sandbox != nil {
		return sandbox.CgroupParent()
	}
	return ""
}

// UsableSandbox returns the newest sandbox if a pod keeps it: it is the only one that is ready, has the desired
// network and, unless that is the host's, an address. Otherwise the pod gets a new one.
func (s *PodStatus) UsableSandbox(hostNetwork bool) *Sandbox {
	newest := s.newestSandbox()
	switch {
	case newest == nil, !newest.Ready, newest.HostNetwork != hostNetwork, !hostNetwork && len(newest.IPs) == 0:
		return nil
	}
	for i := range s.Sandboxes {
		if other := &s.Sandboxes[i]; other.Ready && other != newest {
			return nil
		}
	}
	return newest
}

// newestSandbox returns the sandbox with the highest attempt, nil if there is none.
func (s *PodStatus) newestSandbox() (newest *Sandbox) {
	for i := range s.Sandboxes {
		if one := &s.Sandboxes[i]; newest == nil || one.Attempt > newest.Attempt {
			newest = one
		}
	}
	return newest
}

// ReadySandbox returns the newest ready sandbox, nil if there is none.
func (s *PodStatus) ReadySandbox() *Sandbox {
	for i := range s.Sandboxes {
		if s.Sandboxes[i].Ready {
			return &s.Sandboxes[i]
		}
	}
	return nil
}
