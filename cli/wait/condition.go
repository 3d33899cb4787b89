package wait

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/jsonpath"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

// Condition checks an object, nil if it does not exist: whether the condition is met,
// otherwise the object's state, or an error if the condition can never be met.
type Condition func(o *objects.Object) (met bool, state string, err error)

const notFound = "not found yet"

// verbDeleted is the verb of an object that was deleted during the wait.
const verbDeleted = "deleted"

// deleted is met when the object does not exist.
func deleted(o *objects.Object) (bool, string, error) {
	p, err := objects.DecodePod(o)
	if err != nil || p == nil {
		return err == nil, "", err
	}
	return false, podProgress(p, o.Cause), nil
}

// podReady is met when the pod is ready. It fails for a pod that has completed or failed and
// is not restarted.
func podReady(o *objects.Object) (bool, string, error) {
	p, err := objects.DecodePod(o)
	if err != nil || p == nil {
		return false, notFound, err
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue && p.DeletionTimestamp == nil {
			return true, "", nil
		}
	}
	switch {
	case p.Status.Phase == v1.PodSucceeded:
		return false, "", fmt.Errorf("pod %s has completed and will not become ready", p.Name)
	case p.Status.Phase == v1.PodFailed && (p.Status.Reason == "" || p.Status.Reason == "DeadlineExceeded"):
		return false, "", fmt.Errorf("pod %s has failed (%s) and will not become ready; see podstead describe pod %s", p.Name,
			podtable.State(p), manifest.BaseName(p))
	}
	return false, podProgress(p, o.Cause), nil
}

// hasRevision is met when the pod runs the revision, has its resources, and is ready or has succeeded.
func hasRevision(hash string) Condition {
	return func(o *objects.Object) (bool, string, error) {
		p, err := objects.DecodePod(o)
		if err != nil || p == nil {
			return false, notFound, err
		}
		if p.Annotations[podinfo.AnnotationHash] != hash && string(p.UID) != hash {
			return false, anotherRevision(p), nil
		}
		if p.Status.Phase == v1.PodSucceeded {
			return true, "", nil
		}
		if ready, state, err := podReady(o); !ready || err != nil {
			return false, state, err
		}
		state := resizing(p)
		return state == "", state, nil
	}
}

// anotherRevision reports that a pod runs another revision, and what the newest one waits
// for if the pod's status has that.
func anotherRevision(p *v1.Pod) string {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == "podstead.io/RevisionHeld" && c.Status == v1.ConditionTrue {
			return "running another revision: " + podtable.Shorten(c.Message)
		}
	}
	return "running another revision"
}

// hasCondition is met when the condition has the status.
func hasCondition(name, state string) Condition {
	return func(o *objects.Object) (bool, string, error) {
		if o == nil {
			return false, notFound, nil
		}
		var decoded struct {
			Status struct {
				Conditions []struct{ Type, Status, Reason, Message string }
			}
		}
		if err := o.Decode(&decoded); err != nil {
			return false, "", fmt.Errorf("cannot read what podstead sent: %w", err)
		}
		for _, c := range decoded.Status.Conditions {
			if !strings.EqualFold(c.Type, name) {
				continue
			}
			if strings.EqualFold(c.Status, state) {
				return true, "", nil
			}
			return false, strings.TrimRight(fmt.Sprintf("condition %s=%s: %s", c.Type, c.Status, c.Message), ": "), nil
		}
		return false, "no condition " + name, nil
	}
}

// hasField is met when the field exists, or has the value if one is given.
func hasField(text string) (Condition, error) {
	path, want, hasValue := text, "", false
	// The = after the path separates the value, not one in a filter.
	if end := strings.LastIndexAny(text, "}])"); end >= 0 {
		path, want = text[:end+1], text[end+1:]
		more, value, found := strings.Cut(want, "=")
		path, want, hasValue = path+more, value, found
	} else {
		path, want, hasValue = strings.Cut(text, "=")
	}
	t, err := jsonpath.ParsePath(path)
	if err != nil {
		return nil, err
	}
	want = strings.Trim(want, `"'`)
	return func(o *objects.Object) (bool, string, error) {
		if o == nil {
			return false, notFound, nil
		}
		found := t.Texts(o.Tree())
		if len(found) == 0 {
			return false, "no field " + path, nil
		}
		if !hasValue || found[0] == want {
			return true, "", nil
		}
		return false, path + "=" + found[0], nil
	}, nil
}

// podProgress returns the state of a pod, how many of its containers are ready, the first
// waiting container with its image, and the cause: the given one if it was looked for, otherwise
// what the pod's status reports.
func podProgress(p *v1.Pod, cause string) string {
	if p.DeletionTimestamp != nil {
		text := podtable.State(p)
		if m := cmp.Or(cause, p.Status.Message); m != "" {
			text += ": " + terminal.OneLine(m)
		}
		return text
	}
	ready, _, _ := podtable.Tally(p)
	text := fmt.Sprintf("%s, %d/%d ready", podtable.State(p), ready, podtable.Containers(p))
	images := map[string]string{}
	for c := range podinfo.EachContainer(&p.Spec, podinfo.SpecContainers) {
		images[c.Name] = c.Image
	}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w == nil || w.Reason == "PodInitializing" {
				continue
			}
			text += fmt.Sprintf(", container %s (image %s)", list[i].Name, images[list[i].Name])
			if m := cmp.Or(cause, podtable.Cause(w.Message), podtable.Message(p)); m != "" {
				text += ": " + terminal.OneLine(m)
			}
			return text
		}
	}
	if m := cmp.Or(cause, podtable.Message(p)); m != "" {
		text += ": " + terminal.OneLine(m)
	}
	return text
}

// Restarted is met when each container is a different one than before and the pod is ready.
func Restarted(before *v1.Pod) Condition {
	old := containerIDs(before)
	return func(o *objects.Object) (bool, string, error) {
		p, err := objects.DecodePod(o)
		if err != nil || p == nil {
			return false, "not found", err
		}
		for id := range containerIDs(p) {
			if old[id] && runs(p) {
				return false, "terminating", nil
			}
			if old[id] {
				return false, podProgress(p, o.Cause), nil // it waits to start again
			}
		}
		if slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.ContainerID == "" }) {
			return false, podProgress(p, o.Cause), nil
		}
		return podReady(o)
	}
}

// runs reports whether a container of the pod runs.
func runs(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses,
		func(s v1.ContainerStatus) bool { return s.State.Running != nil })
}

func containerIDs(p *v1.Pod) map[string]bool {
	ids := map[string]bool{}
	for _, s := range p.Status.ContainerStatuses {
		if s.ContainerID != "" {
			ids[s.ContainerID] = true
		}
	}
	return ids
}

// ErrUnknownCondition reports that --for names no condition that can be waited for.
var ErrUnknownCondition = errors.New("unknown condition")

// SetCondition sets the condition of all targets.
func (w *Waiter) SetCondition(condition, value string, hasValue bool) error {
	var c Condition
	switch {
	case condition == "ready" && !hasValue && w.Kind.Name == "pods":
		c, w.Verb = podReady, "is ready"
	case condition == "ready" && !hasValue:
		c, w.Verb = hasCondition("Ready", "True"), "is ready"
	case condition == "delete" && !hasValue:
		c, w.Verb = deleted, verbDeleted
	case condition == "condition" && value != "":
		name, state, given := strings.Cut(value, "=")
		if !given {
			state = "True"
		}
		c, w.Verb = hasCondition(name, state), "has condition "+name+"="+state
	case condition == "jsonpath" && value != "":
		found, err := hasField(value)
		if err != nil {
			return &objects.UsageError{Err: fmt.Errorf("--for: %w", err)}
		}
		c, w.Verb = found, "has "+value
	case condition == "revision" && value != "":
		c, w.Verb = hasRevision(value), "is running this revision"
	default:
		return ErrUnknownCondition
	}
	for _, t := range w.Targets {
		t.Condition = c
		if condition == "revision" {
			t.revision = value
		}
	}
	if condition == "revision" {
		w.check = w.checkSettled(nil)
	}
	return nil
}
