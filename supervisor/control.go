package supervisor

import (
	"context"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podstart"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/runtimehealth"
	"github.com/podstead/podstead/supervisor/status"
	"github.com/podstead/podstead/supervisor/volume"
	"github.com/podstead/podstead/supervisor/volume/binding"
)

// Restart ends the run of a pod, if it has not ended yet, and starts the pod again
// under the same UID, not before the given time (the zero time is at once): with the
// next sandbox attempt, its restart counts and log numbers carried on. It is an
// error for a pod that no source wants, and for one that belongs to an API server.
func (s *Supervisor) Restart(uid types.UID, reason string, notBefore time.Time) error {
	return s.workers.Restart(uid, reason, notBefore)
}

// SetRemovalGrace sets the grace period, in seconds, of a pod whose manifest is going to be
// removed; nil is the pod's own. It ends nothing itself.
func (s *Supervisor) SetRemovalGrace(uid types.UID, grace *int64) {
	s.workers.SetRemovalGrace(uid, grace)
}

// Disrupt ends the run of a pod for the node's own sake, within grace seconds, or
// the pod's own grace period if that is nil. The pod is Failed from now on with the
// reason and the message, and has the condition DisruptionTarget, until the
// RestartPolicy for the reason allows it to run again. That is saved: a restart of
// the daemon neither loses the pod nor starts it at once. A pod of an API server
// does not run again. Disrupt does not wait; WaitEnded does.
func (s *Supervisor) Disrupt(uid types.UID, d status.Disruption, grace *int64) error {
	return s.workers.Disrupt(uid, d, grace)
}

// Ended reports whether everything of a pod has ended: nothing of it runs, its
// volumes are unmounted and its cgroup is removed. It is false for an unknown pod,
// and for one that waits to run.
func (s *Supervisor) Ended(uid types.UID) bool { return s.workers.State(uid) == podworkers.Finished }

// Started reports whether a pod was started here, by this daemon or a previous one, and is not
// forgotten yet: it has a directory.
func (s *Supervisor) Started(uid types.UID) bool {
	dir, err := s.podSyncer.files.volumes.PodDir(uid)
	if err != nil {
		return false
	}
	_, err = os.Lstat(dir)
	return err == nil
}

// PodStart returns how long a pod took to start, with its steps. ok is false while it starts, and
// for a pod that an earlier daemon started.
func (s *Supervisor) PodStart(uid types.UID) (start api.PodStart, ok bool) {
	d, ok := s.podSyncer.durations.Get(uid)
	start = api.PodStart{UID: uid, Seconds: d.Took.Seconds(), Steps: make([]api.StartStep, 0, len(d.Steps))}
	for _, step := range d.Steps {
		start.Steps = append(start.Steps, api.StartStep{Name: step.Name, Seconds: step.Took.Seconds()})
	}
	return start, ok
}

// WaitEnded waits until the present run of a pod has ended: nothing of it runs, its
// volumes are unmounted and its cgroup is removed. It returns nil at once for a pod
// that does not run, and the context's error if that ends first.
func (s *Supervisor) WaitEnded(ctx context.Context, uid types.UID) error {
	select {
	case <-s.workers.Ended(uid):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Pods returns the desired pods and those that are still terminating, with their
// statuses, sorted by namespace and name. A terminating pod has a deletion
// timestamp if no source wants it. They are shared and must not be written to.
func (s *Supervisor) Pods() []*v1.Pod {
	resolve := func(pod *v1.Pod) *v1.Pod { return s.podSyncer.inputs.Resolve(s.podSyncer.ephemeral.With(pod)).Pod }
	return s.views.Pods(append(s.workers.Views(), s.keptViews()...), resolve, s.cfg.Store.Statuses.Current)
}

// SyncedPods is Pods for clients of the API. The first call after the daemon's
// start waits until the sources have delivered, the orphans are known and each pod has a
// status of this daemon, or for 3 seconds: a client that asks right after a restart must
// neither see running pods as Pending nor miss one that is still to end.
func (s *Supervisor) SyncedPods() []*v1.Pod {
	complete := func() bool {
		ready := s.desired.AllReady(s.cfg.Sources.Pods.Sources())
		return ready && s.kept.Load() != nil
	}
	s.firstStatus.Await(complete, s.Pods, s.cfg.Store.Statuses.Subscribe)
	return s.Pods()
}

// ErrNotStarted is in the error of WaitStarted if a pod did not start.
var ErrNotStarted = podstart.ErrNotStarted

// WaitStarted waits for the starts of all desired pods, as podstart.Waiter.Started.
func (s *Supervisor) WaitStarted(ctx context.Context, report func(pod *v1.Pod, err error)) error {
	return s.starts().Started(ctx, report)
}

// WaitSourcesReady waits until Pods returns all desired pods, as
// podstart.Waiter.SourcesReady.
func (s *Supervisor) WaitSourcesReady(ctx context.Context) error { return s.starts().SourcesReady(ctx) }

func (s *Supervisor) starts() podstart.Waiter {
	statuses := s.cfg.Store.Statuses
	return podstart.Waiter{Desired: s.desired, Sources: s.cfg.Sources.Pods.Sources, Status: statuses.Get,
		Subscribe: statuses.Subscribe}
}

// RuntimeCondition is the last known state of the runtime.
type RuntimeCondition = runtimehealth.Condition

// Runtime returns the last known state of the runtime. While the host shuts down
// the node is not ready, whatever the runtime reports.
func (s *Supervisor) Runtime() RuntimeCondition {
	c := s.runtime.Condition()
	if since, begun := s.shutdown.begun(); begun {
		c = RuntimeCondition{Version: c.Version, NotReady: nodeShutdownMessage, Since: since}
	}
	return c
}

// RetryDisrupted asks the restart policies about each disrupted pod.
func (s *Supervisor) RetryDisrupted() { s.workers.RetryDisrupted() }

// RetryHeld asks the gates about each held pod.
func (s *Supervisor) RetryHeld() {
	s.workers.RetryHeld()
	s.cfg.Sources.Rollouts.RetryPreparations()
}

// ImagesAdded syncs every pod: one may wait for an image that was added to the
// runtime.
func (s *Supervisor) ImagesAdded() {
	s.workers.NotifyAll()
	s.cfg.Sources.Rollouts.RetryPreparations()
}

// ReclaimContainers removes dead containers and sandboxes because a disk is full,
// all of those of ended pods, and returns how many it removed.
func (s *Supervisor) ReclaimContainers(ctx context.Context) (int, error) {
	return s.garbage.Reclaim(ctx)
}

// ShareMounts makes mounts propagate between the host and the volumes of pods, where
// the host's mounts are private. It is called before Run.
func (s *Supervisor) ShareMounts() error { return s.podSyncer.files.volumes.ShareRoot() }

// UnshareMounts undoes ShareMounts, and the same of other directories, if no pod is left. It is called after Run.
func (s *Supervisor) UnshareMounts(others ...string) error {
	return s.podSyncer.files.volumes.UnshareRoots(others...)
}

// Claims returns the directories of PersistentVolumeClaims, whether or not a manifest
// still declares them.
func (s *Supervisor) Claims() ([]volume.Claim, error) { return s.podSyncer.files.volumes.ListClaims() }

// ClusterClaims returns the claims of a cluster that API pods use here or wait for; none without a cluster.
func (s *Supervisor) ClusterClaims() []volume.ClusterClaim {
	var pods []*v1.Pod
	for _, pod := range s.Pods() {
		if !s.Ended(pod.UID) {
			pods = append(pods, pod)
		}
	}
	return s.podSyncer.inputs.ClusterClaims(pods)
}

// PodClaimPath returns where the content of a claim is on the host as one pod uses it, by the name of the pod's
// volume; empty if the pod does not use it yet.
func (s *Supervisor) PodClaimPath(uid types.UID, name string) string {
	return s.podSyncer.files.volumes.PodClaimPath(uid, name)
}

// ClaimDirectories lists the claims that are directories of their own, without the pods that
// use them.
func (s *Supervisor) ClaimDirectories() ([]volume.ClaimDirectory, error) {
	return s.podSyncer.files.volumes.ClaimDirectories()
}

// ClaimBindings returns the claims that are bound to a PersistentVolume.
func (s *Supervisor) ClaimBindings() ([]binding.Binding, error) {
	return s.podSyncer.files.volumes.ListBindings()
}

// RemoveClaim deletes the volume of a claim with its contents; those of a volume that a
// manifest declares stay. For a claim that a pod uses it returns volume.ErrClaimInUse.
func (s *Supervisor) RemoveClaim(namespace, name string) error {
	if err := s.podSyncer.files.volumes.RemoveClaim(namespace, name); err != nil {
		return err
	}
	s.log.Info("Persistent volume removed by command", "namespace", namespace, "claim", name)
	return nil
}

// PullCredentials returns the credentials for an image that is pulled for no pod:
// those of Secrets that the manifests declare, then those of the node.
func (s *Supervisor) PullCredentials(namespace string, secrets []string) cri.PullCredentials {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Annotations: map[string]string{podinfo.AnnotationSource: string(podinfo.SourceFile)}}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: name})
	}
	return s.podSyncer.inputs.PullCredentials(pod)
}
