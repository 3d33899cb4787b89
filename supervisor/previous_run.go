package supervisor

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/podworkers"
)

// replacement returns the order to end what runs if it is a revision that cannot
// become the desired one in place: an edit of a pod with a uid in its manifest, or an
// edit while the daemon was not running. The template hash of the sandbox shows it.
func replacement(pod *v1.Pod, policy podinfo.SourcePolicy, observed *cri.PodStatus) *podworkers.KillOrder {
	if policy.UpdatesInPlace || len(observed.Sandboxes) == 0 || !observed.HasReadySandbox() &&
		len(observed.Containers) == 0 {
		return nil
	}
	running := observed.Sandboxes[0].Annotations[podinfo.AnnotationTemplate]
	desired := pod.Annotations[podinfo.AnnotationTemplate]
	renamed := observed.Name != pod.Name || observed.Namespace != pod.Namespace
	if running == "" || desired == "" || running == desired && !renamed {
		return nil
	}
	grace := foundGrace(observed.Pod())
	return &podworkers.KillOrder{Reason: podworkers.KillRestart, Message: policy.ReplacedText, Grace: &grace}
}

// keepsHistory reports whether it makes no difference to the present run how the
// containers of the previous one ended: all are started again in any case, and the
// user can read their logs.
func keepsHistory(pod *v1.Pod, policy podinfo.SourcePolicy, observed *cri.PodStatus) bool {
	if pod.Spec.RestartPolicy != v1.RestartPolicyAlways || replacement(pod, policy, observed) != nil {
		return false
	}
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.RestartPolicy != nil || len(c.RestartPolicyRules) > 0 {
			return false
		}
	}
	return true
}

// purgePreviousRun removes the containers of the previous run, so that neither their
// exit codes nor their back-off count for this one. The newest sandbox stays, so
// that the next attempt has the next number. If the history is kept, only the ephemeral
// containers are removed: another of the same name would count as one that has run.
func (a *syncAttempt) purgePreviousRun(ctx context.Context) error {
	dead := a.observed.Pod()
	if !a.run.inherited.clearLogs && keepsHistory(a.pod, a.policy, a.observed) {
		dead.Sandboxes = nil
		dead.Containers = slices.DeleteFunc(slices.Clone(dead.Containers), func(c cri.Container) bool {
			return podinfo.FindContainer(&a.pod.Spec, c.Name) != nil
		})
		if len(dead.Containers) == 0 {
			return nil
		}
		if err := a.remove(ctx, dead); err != nil {
			return err
		}
		return a.observe(ctx)
	}
	if len(dead.Sandboxes) > 0 {
		dead.Sandboxes = dead.Sandboxes[1:]
	}
	if a.run.inherited.clearLogs {
		if err := a.files.logs.RemovePodLogs(a.observed.UID); err != nil {
			return err
		}
	}
	if len(dead.Containers)+len(dead.Sandboxes) == 0 {
		return nil
	}
	if err := a.remove(ctx, dead); err != nil {
		return err
	}
	if err := a.observe(ctx); err != nil {
		return err
	}
	if len(a.observed.Containers) > 0 {
		return errors.New("containers of the previous run still exist after they were removed")
	}
	return nil
}
