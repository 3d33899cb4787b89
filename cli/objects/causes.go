package objects

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/terminal"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

const (
	// maxCauses is the maximum number of pods whose events one command reads, and of causes
	// that it prints after a table.
	maxCauses = 20
	// causeTimeout limits the wait for the events of one pod.
	causeTimeout = 2 * time.Second
)

// Causes say why pods do not run, are not ready, or still terminate, by the key of the pod. Pods
// without a known cause are missing.
type Causes map[string]string

// podKey is the key of a pod in Causes.
func podKey(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// Find returns the cause of a pod, empty if there is none.
func (c Causes) Find(p *v1.Pod) string { return c[podKey(p)] }

// FindCauses looks for the cause of each pod that does not run or is not ready: its message,
// the last line of the log of a crashed container, the last failure of a probe, and what a
// terminating pod waits for. What cannot be read is left out.
func FindCauses(ctx context.Context, c *client.Client, pods []v1.Pod) Causes {
	AddLastLines(ctx, c, pods)
	causes, left := Causes{}, maxCauses
	listeners := HostListeners(pods)
	for i := range pods {
		p := &pods[i]
		text := cmp.Or(podtable.Terminating(p, time.Now()), podtable.Message(p))
		if mayHaveFailedProbe(p) && left > 0 {
			left--
			if failure := probeFailure(podEvents(ctx, c, p), p); failure != "" {
				text = failure
			}
		}
		if text = terminal.OneLine(cmp.Or(text, podtable.Resize(p), podtable.Outdated(p), listeners.Find(p))); text != "" {
			causes[podKey(p)] = text
		}
	}
	return causes
}

// Explain returns the cause of one pod that does not run or is not ready. If there is none, and
// all containers run, it returns what the pod's conditions say, empty for a pod that is well.
func Explain(ctx context.Context, c *client.Client, p *v1.Pod) string {
	pods := []v1.Pod{*p.DeepCopy()}
	if cause := FindCauses(ctx, c, pods).Find(&pods[0]); cause != "" {
		return cause
	}
	if slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.State.Running == nil }) {
		return ""
	}
	return terminal.OneLine(Unready(p))
}

// Unready returns what the conditions of a pod without a message say about why it is not ready,
// empty if they say nothing.
func Unready(p *v1.Pod) string {
	for _, t := range []v1.PodConditionType{v1.PodInitialized, v1.PodReadyToStartContainers, v1.ContainersReady,
		v1.PodReady} {
		for _, c := range p.Status.Conditions {
			if c.Type == t && c.Status != v1.ConditionTrue && c.Message != "" {
				return c.Message
			}
		}
	}
	return ""
}

// mayHaveFailedProbe reports whether a container with a probe is not ready, or was killed.
func mayHaveFailedProbe(p *v1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return false
	}
	probed := map[string]bool{}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			probed[list[i].Name] = list[i].ReadinessProbe != nil || list[i].StartupProbe != nil || list[i].LivenessProbe != nil
		}
	}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if s := &list[i]; probed[s.Name] && !s.Ready &&
				(s.State.Running != nil || s.LastTerminationState.Terminated != nil) {
				return true
			}
		}
	}
	return false
}

// podEvents returns the events of a pod, the oldest first; none if they cannot be read.
func podEvents(ctx context.Context, c *client.Client, p *v1.Pod) []v1.Event {
	ctx, cancel := context.WithTimeout(ctx, causeTimeout)
	defer cancel()
	q := Query{Kind: EventKind(), Namespace: p.Namespace, Fields: "involvedObject.kind=Pod,involvedObject.name=" + p.Name}
	l, err := q.List(ctx, c)
	if err != nil {
		return nil
	}
	var events []v1.Event
	for _, o := range l.Objects {
		var e v1.Event
		if o.Decode(&e) == nil && (e.InvolvedObject.UID == "" || e.InvolvedObject.UID == p.UID) {
			events = append(events, e)
		}
	}
	return events
}

// probeFailure returns the last failure of a probe because of which a container is not ready
// or was restarted, empty if there is none.
func probeFailure(events []v1.Event, p *v1.Pod) string {
	for _, s := range slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses) {
		var since time.Time
		kinds := []string{"Readiness", "Startup", "Liveness"}
		t := s.LastTerminationState.Terminated
		switch {
		case s.Ready:
			continue
		case s.State.Running != nil:
			since = s.State.Running.StartedAt.Time
		case s.State.Waiting != nil && t != nil && killedByProbe(events, s.Name, t):
			since, kinds = t.StartedAt.Time, []string{"Liveness", "Startup"}
		default:
			continue
		}
		if e := lastUnhealthy(events, p, s.Name, kinds, since); e != nil {
			text := podtable.ProbeFailure(e.Message)
			if s.State.Running == nil {
				text = fmt.Sprintf("%s was restarted: %s", s.Name, text)
			}
			return text
		}
	}
	return ""
}

// killedByProbe reports whether an instance of a container was killed because of a probe.
func killedByProbe(events []v1.Event, container string, t *v1.ContainerStateTerminated) bool {
	return slices.ContainsFunc(events, func(e v1.Event) bool {
		return e.Reason == "Killing" && !e.LastTimestamp.Time.Before(t.StartedAt.Time) &&
			(strings.HasPrefix(e.Message, "Container "+container+" failed liveness probe") ||
				strings.HasPrefix(e.Message, "Container "+container+" failed startup probe"))
	})
}

// lastUnhealthy returns the last event of a failed probe of a container, nil if there is none.
func lastUnhealthy(events []v1.Event, p *v1.Pod, container string, kinds []string, since time.Time) *v1.Event {
	several := len(p.Spec.InitContainers)+len(p.Spec.Containers) > 1
	for i := len(events) - 1; i >= 0; i-- {
		e := &events[i]
		if e.Reason != "Unhealthy" || e.LastTimestamp.Time.Before(since) || several &&
			!strings.HasSuffix(e.Message, "(container "+container+")") {
			continue
		}
		if kind, _, _ := strings.Cut(e.Message, " "); slices.Contains(kinds, kind) {
			return e
		}
	}
	return nil
}

// PrintCauses prints the cause of each pod that does not run or is not ready, within the width
// of the terminal.
func PrintCauses(ctx context.Context, c *client.Client, pods []v1.Pod, out io.Writer) {
	causes := FindCauses(ctx, c, pods)
	width, printed := terminal.Detect(out).Width, 0
	for i := range pods {
		p := &pods[i]
		cause := causes.Find(p)
		if cause == "" {
			continue
		}
		if printed++; printed > maxCauses {
			fmt.Fprintf(out, "pod: %d more; see podstead status\n", len(causes)-maxCauses)
			return
		}
		text := fmt.Sprintf("pod: %s/%s: %s", p.Namespace, manifest.BaseName(p), terminal.Visible(cause))
		for n, line := range terminal.Wrap(text, max(cmp.Or(width, len(text)), terminal.WrapWidth)) {
			if n > 0 {
				line = "     " + line
			}
			fmt.Fprintln(out, line)
		}
	}
}
