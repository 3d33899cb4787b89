package supervisor

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// syncTerminatedPod takes down what a pod had on this host. When it is done
// the pod's name is free.
func (s *podSyncer) syncTerminatedPod(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	uid := podUID(j)
	s.removeProbes(uid)
	// Before the volumes: what still runs may hold one.
	if err := s.destroyCgroup(ctx, uid); err != nil {
		return podworkers.SyncResult{Err: err}
	}
	if err := s.volumes.Teardown(uid); err != nil {
		return podworkers.SyncResult{Err: err}
	}
	s.reservations.Release(uid, j.Restart)
	s.logEnd(j, r)
	if !j.Wanted {
		// The record goes with the pod; writing it would only delay whoever
		// waits for the name.
		return podworkers.SyncResult{}
	}
	if out := s.showFinished(ctx, j, r); out.Err != nil || j.Restart {
		return out
	}
	s.save(uid, r)
	return podworkers.SyncResult{}
}

// showFinished publishes the status of a pod of which nothing runs any more.
func (s *podSyncer) showFinished(ctx context.Context, j podworkers.SyncJob, r *runState) podworkers.SyncResult {
	observed, err := s.observe(ctx, podUID(j), r)
	if err != nil {
		return podworkers.SyncResult{Err: err}
	}
	s.publish(j, r, observed, statusOverrides{ended: true})
	return podworkers.SyncResult{}
}

// clearRemains removes all that is left of a pod that no source wants. The
// record goes last: as long as there is one, a later daemon knows that the
// pod's logs are ours to remove.
func (s *podSyncer) clearRemains(ctx context.Context, j podworkers.SyncJob, r *runState) error {
	uid := podUID(j)
	observed, err := s.observe(ctx, uid, r)
	if err != nil {
		return err
	}
	if len(observed.Containers)+len(observed.Sandboxes) > 0 {
		if err := s.remove(ctx, observed.Pod(), r); err != nil {
			return err
		}
		if _, err := s.observe(ctx, uid, r); err != nil {
			return err
		}
	}
	if err := s.removeFolders(uid); err != nil {
		return err
	}
	s.cfg.Runtime.Syncer.Forget(uid)
	s.reservations.Forget(uid)
	s.cfg.Store.Statuses.Delete(uid)
	s.faults.Delete(uid)
	s.seenObjects.Delete(uid)
	return s.cfg.Store.Records.Delete(uid)
}

// remove removes dead containers and sandboxes.
func (s *podSyncer) remove(ctx context.Context, pod *cri.Pod, r *runState) error {
	err := s.cfg.Runtime.Syncer.Remove(ctx, pod)
	s.noteAct(pod.UID, r)
	if err != nil {
		return fmt.Errorf("cannot remove what is left of the pod: %w", err)
	}
	return nil
}

// keepsHistory reports whether how the containers of the run before ended makes
// no difference to this one: all are started again whatever it was, and people
// can read what they printed.
func keepsHistory(pod *v1.Pod, observed *cri.PodStatus) bool {
	if pod.Spec.RestartPolicy != v1.RestartPolicyAlways || replaces(pod, observed) != nil {
		return false
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 {
			return false
		}
	}
	return true
}

// purge removes the containers of the run before, so that neither its exit
// codes nor its back-off count for this one. The newest sandbox stays, so that
// the next attempt has the next number.
func (s *podSyncer) purge(ctx context.Context, observed *cri.PodStatus, r *runState) (*cri.PodStatus, error) {
	dead := observed.Pod()
	if len(dead.Sandboxes) > 0 {
		dead.Sandboxes = dead.Sandboxes[1:]
	}
	if r.clearLogs {
		if err := s.removeLogs(observed.UID); err != nil {
			return nil, err
		}
	}
	if len(dead.Containers)+len(dead.Sandboxes) == 0 {
		return observed, nil
	}
	if err := s.remove(ctx, dead, r); err != nil {
		return nil, err
	}
	after, err := s.observe(ctx, observed.UID, r)
	if err == nil && len(after.Containers) > 0 {
		err = errors.New("containers of the run before are still there after they were removed")
	}
	return after, err
}
