package noderesources

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
)

// Resource is an entry of the list. What else it has to do for a pod are the other interfaces of this
// file, each of them optional. All of them are called by many workers at once, for one pod by one at a
// time; only Prepare, Contribute, Unprepare, Release and Forget may take their time.
type Resource interface {
	// Name names the resource, for messages to developers.
	Name() string
	// Preview returns why a revision could not have the resource when it starts, nil if it could. It takes
	// nothing. NeverRefuses is for resources that every pod can have.
	Preview(c *Candidate) *Refusal
}

// NeverRefuses is embedded by a Resource that refuses no pod.
type NeverRefuses struct{}

// Preview refuses nothing.
func (NeverRefuses) Preview(*Candidate) *Refusal { return nil }

// Candidate is a revision of a pod that is not desired yet.
type Candidate struct {
	Pod *v1.Pod
	// Replaced is the pod that ends for it, by its UID.
	Replaced types.UID
	// Ended are all pods that end before it starts, Replaced included. First are the revisions that start
	// before it, in place of others.
	Ended []types.UID
	First []*v1.Pod
}

// Queuer has a queue of pods that wait.
type Queuer interface {
	Resource
	// Queue refuses a pod for which the resource is not there now; the pod waits until it has it, or until
	// Withdraw or Release. It takes nothing, and is called before any Reserve.
	Queue(s *Start) *Refusal
	// Withdraw records that something else keeps the pod from starting: it loses its turn, and keeps what
	// it has.
	Withdraw(uid types.UID)
}

// Reserver can give a pod what it needs at once.
type Reserver interface {
	Resource
	// Reserve reserves what a pod needs that is about to start, or refuses. It keeps what the pod has.
	Reserve(s *Start) *Refusal
	// Withdraw is that of a Queuer.
	Withdraw(uid types.UID)
	Releaser
}

// Preparer prepares the resource on the host.
type Preparer interface {
	Resource
	// Prepare is called at each sync, before the runtime acts, also for a pod that runs. It is repeated,
	// and changes nothing that is prepared.
	Prepare(ctx context.Context, s *Start) *Refusal
}

// Contributor adds to what a container is created with.
type Contributor interface {
	Resource
	Contribute(ctx context.Context, pod *v1.Pod, c *v1.Container, in *cri.Inputs) error
}

// Unpreparer gives back what a stopped pod must not have any more when it counts as stopped.
type Unpreparer interface {
	Resource
	// Unprepare is called when no container of the pod runs any more. After an error it is called again.
	Unprepare(ctx context.Context, uid types.UID) error
}

// Releaser gives back what pods have.
type Releaser interface {
	Resource
	// Release gives back what a stopped pod has. restarts: the pod is going to start again, at once. After
	// an error it is called again.
	Release(ctx context.Context, uid types.UID, restarts bool) error
}

// Forgetter has something of pods until no source wants them any more.
type Forgetter interface {
	Resource
	// Forget removes it. After an error it is called again.
	Forget(ctx context.Context, uid types.UID) error
}

// Retainer gives back what pods have that ended while no daemon ran.
type Retainer interface {
	Resource
	// Retain gives back what all pods have but those that keep reports: those that the runtime has, and
	// those that are desired or end now. complete is false until all sources have delivered: until then
	// pods are missing that were started before.
	Retain(keep func(types.UID) bool, complete bool)
}

// Changer notifies pods.
type Changer interface {
	Resource
	// Changed receives after TakeChanged has something to return; nil never does.
	Changed() <-chan struct{}
	// TakeChanged returns the pods that are to be synced, once, and whether a revision that Preview has
	// refused may be possible now.
	TakeChanged() (pods []types.UID, previews bool)
}

// Resizer takes part in the resize of a pod that runs.
type Resizer interface {
	Resource
	// CheckResize returns why the containers of a pod cannot get the resources of another revision of it
	// for good, nil if they can.
	CheckResize(has, wants *v1.Pod) error
	// Resize applies the resources of a pod that runs.
	Resize(ctx context.Context, pod *v1.Pod, observed *cri.PodStatus) error
}

// Reporter shows the health of what a pod has in its status, by container.
type Reporter interface {
	Resource
	Status(uid types.UID) map[string][]v1.ResourceStatus
}

// Finder finds pods on the host that exist nowhere else.
type Finder interface {
	Resource
	// Found returns the pods that have something of the resource.
	Found() []types.UID
	// Reappeared returns those of them of which all was released a moment ago, and whether it is to be
	// called again.
	Reappeared() (pods []types.UID, again bool)
}

// Start is one sync of a pod, as the resources see it.
type Start struct {
	// Pod is the pod with its classes resolved, Observed what was observed of it.
	Pod      *v1.Pod
	Observed *cri.PodStatus
	// Requests is the pod with the resources to reserve, and Since when it was first taken up; zero if now.
	Requests *v1.Pod
	Since    time.Time
	// Allocated is the pod with the resources that its containers are to have now, Limits with the most
	// that they have while they are resized. They are set before Prepare.
	Allocated, Limits *v1.Pod

	// Resources contribute to the inputs of containers.
	Resources *List

	// Assigned reports the CPUs and the memory of the containers; nil if the node assigns none.
	Assigned cri.Assigned

	// Sandbox and Inputs are what Prepare contributes to the sandbox, and the inputs of each container,
	// which are resolved right before it is created.
	Sandbox cri.SandboxInputs
	Inputs  ContainerInputs
	// LimitsApplied: Prepare has made the host enforce Limits. LimitsFault is why it could not.
	LimitsApplied bool
	LimitsFault   error
}

// ContainerInputs resolves what one container needs, once the IPs of the pod are known.
type ContainerInputs = func(ctx context.Context, c *v1.Container, podIPs []string) (cri.Inputs, error)

// Running reports whether the pod has a sandbox: it keeps what it has.
func (s *Start) Running() bool { return s.Observed.HasReadySandbox() }
