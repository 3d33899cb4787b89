package wait

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

// Rollout waits for the rollout of a pod.
type Rollout struct {
	Client  *client.Client
	ErrOut  io.Writer
	Pod     *v1.Pod
	Timeout time.Duration
}

// Ended waits until the rollout has ended and the pod is ready or has succeeded, unless it was
// rolled back, and returns the rollout; nil for a pod that has none. It returns a TimeoutError if
// the timeout expires first, and another error if the pod has failed and is not restarted. A file
// that was changed a moment ago is waited for until the daemon has read it.
func (w *Rollout) Ended(ctx context.Context) (*api.Rollout, error) {
	read, err := w.unread(ctx)
	if err != nil {
		return nil, err
	}
	p := terminal.NewProgress(w.ErrOut)
	defer p.Clear()
	limited, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	tick, again := time.NewTicker(checkPeriod/4), time.NewTicker(repeatPeriod)
	defer tick.Stop()
	defer again.Stop()
	began, state := time.Now(), "in progress"
	shown := ""
	for {
		r, err := objects.FindRollout(limited, w.Client, w.Pod.Namespace, w.Pod.Name)
		reason := ""
		if err == nil && r != nil && r.Ended() {
			var o *objects.Object
			if o, reason, err = notReady(limited, w.Client, r); err == nil && time.Since(began) > settleTime {
				err = cannotResize(o)
			}
		}
		switch {
		case err != nil && errors.Is(limited.Err(), context.DeadlineExceeded):
		case err != nil:
			return nil, err
		case r == nil:
			return nil, nil
		case r.Ended() && reason == "" &&
			(r.State != api.RolloutStable || read == nil || read(limited) || time.Since(began) > settleTime):
			return r, nil
		default:
			// The time that is left is no change: it would be a line per second of a log.
			if state = objects.RolloutSummary(r, time.Now()); reason != "" {
				state = "revision " + r.Revision + " is in effect: " + reason
			}
			if change := string(r.State) + r.Candidate + r.Message + r.Deadline.String() + reason; change != shown {
				state = withCause(state, w.cause(limited))
				p.Show("pod/" + w.Pod.Name + ": " + state)
				shown = change
			}
		}
		select {
		case <-tick.C:
			p.Tick()
		case <-again.C:
			shown = "" // the cause may be another one, or appear only now
			if o, err := podOf(limited, w.Client, w.Pod.Namespace, w.Pod.Name); err == nil && o != nil {
				if err := cannotStart(limited, w.Client, o); err != nil {
					return nil, fmt.Errorf("pod/%s: %w", w.Pod.Name, err)
				}
			}
			p.Repeat()
		case <-limited.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, &TimeoutError{w.Timeout, "pod/" + w.Pod.Name + ": " + withCause(state, w.cause(ctx))}
		}
	}
}

// cause returns why the pod that runs is not ready, empty if it is, or is not known.
func (w *Rollout) cause(ctx context.Context) string {
	o, err := podOf(ctx, w.Client, w.Pod.Namespace, w.Pod.Name)
	if err != nil || o == nil {
		return ""
	}
	return findCause(ctx, w.Client, o)
}

// unread returns a function that reports whether the pod has the revision in its file, nil
// if the pod comes from no file, or if the revision is in effect already. A manifest that is
// invalid is an error.
func (w *Rollout) unread(ctx context.Context) (func(context.Context) bool, error) {
	file, err := manifestFile(ctx, w.Client, &Target{Namespace: w.Pod.Namespace, Name: manifest.BaseName(w.Pod)})
	if err != nil {
		return nil, nil // it comes from a URL, or was removed: what the daemon reports holds
	}
	node, err := objects.NodeName(ctx, w.Client)
	if err != nil {
		return nil, err
	}
	pods, err := revisionsOf(ctx, file, node)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", w.Pod.Name, err)
	}
	for _, p := range pods {
		if p.Namespace != w.Pod.Namespace || p.Name != w.Pod.Name {
			continue
		}
		hash := p.Annotations[podinfo.AnnotationHash]
		return func(ctx context.Context) bool {
			o, err := podOf(ctx, w.Client, w.Pod.Namespace, w.Pod.Name)
			if err != nil || o == nil {
				return false
			}
			running, err := objects.DecodePod(o)
			return err == nil && running.Annotations[podinfo.AnnotationHash] == hash
		}, nil
	}
	return nil, nil
}

// NotReady returns why the pod of a rollout that has ended is neither ready nor has succeeded, with the
// cause, or lacks the resources of its manifest. It is empty if neither is so, if the pod was rolled back, or
// if the daemon is too old to say which pod it is. The error is for a pod that has failed and is not restarted,
// and for resources that it cannot get.
func NotReady(ctx context.Context, c *client.Client, r *api.Rollout) (string, error) {
	pod, state, err := notReady(ctx, c, r)
	if err != nil || pod == nil || state == "" {
		return state, err
	}
	if err := cannotResize(pod); err != nil {
		return "", err
	}
	if ready, _, err := podReady(pod); ready && err == nil {
		return state, nil
	}
	pod.Cause = findCause(ctx, c, pod)
	_, state, err = hasRevision(string(r.UID))(pod)
	return "not ready: " + state, err
}

// notReady is NotReady without the cause, for which logs and events are read. It returns the pod
// as well, nil if there is none.
func notReady(ctx context.Context, c *client.Client, r *api.Rollout) (*objects.Object, string, error) {
	if r.State == api.RolloutRolledBack || r.UID == "" {
		return nil, "", nil
	}
	pod, err := podOf(ctx, c, r.Namespace, r.Name)
	if err != nil {
		return nil, "", err
	}
	ready, state, err := hasRevision(string(r.UID))(pod)
	if ready || err != nil {
		return pod, "", err
	}
	return pod, state, nil
}
