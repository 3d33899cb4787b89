package wait

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/cli/jsonpath"
	"github.com/podstead/podstead/cmd/podstead/cli/objects"
	"github.com/podstead/podstead/cmd/podstead/cli/terminal"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

// until looks at an object, nil if it is not there: whether that is what is
// waited for, what it does meanwhile, and an error if it will never be.
type Condition func(o *objects.Object) (done bool, meanwhile string, err error)

const notFound = "is not there yet"

func deleted(o *objects.Object) (bool, string, error) {
	p, err := objects.DecodePod(o)
	if err != nil || p == nil {
		return err == nil, "", err
	}
	return false, progressOf(p), nil
}

// untilReady fails for a pod that has ended and is not run again.
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
		return false, "", fmt.Errorf("pod %s has ended (Completed) and will not be ready", p.Name)
	case p.Status.Phase == v1.PodFailed && (p.Status.Reason == "" || p.Status.Reason == "DeadlineExceeded"):
		return false, "", fmt.Errorf("pod %s has ended (%s) and will not be ready; see podstead describe pod %s", p.Name, podtable.State(p), manifest.BaseName(p))
	}
	return false, progressOf(p), nil
}

// untilRevision is done when the pod is of the revision, and ready or done
// with its work.
func hasRevision(hash string) Condition {
	return func(o *objects.Object) (bool, string, error) {
		p, err := objects.DecodePod(o)
		if err != nil || p == nil {
			return false, notFound, err
		}
		if p.Annotations[podinfo.AnnotationHash] != hash && string(p.UID) != hash {
			return false, "is of another revision", nil
		}
		if p.Status.Phase == v1.PodSucceeded {
			return true, "", nil
		}
		return podReady(o)
	}
}

func hasCondition(name, state string) Condition {
	return func(o *objects.Object) (bool, string, error) {
		if o == nil {
			return false, notFound, nil
		}
		var has struct {
			Status struct {
				Conditions []struct{ Type, Status, Reason, Message string }
			}
		}
		if err := o.Decode(&has); err != nil {
			return false, "", fmt.Errorf("cannot read what podstead sent: %w", err)
		}
		for _, c := range has.Status.Conditions {
			if !strings.EqualFold(c.Type, name) {
				continue
			}
			if strings.EqualFold(c.Status, state) {
				return true, "", nil
			}
			return false, strings.TrimRight(fmt.Sprintf("has condition %s=%s: %s", c.Type, c.Status, c.Message), ": "), nil
		}
		return false, "has no condition " + name, nil
	}
}

func hasField(text string) (Condition, error) {
	path, want, hasValue := text, "", false
	// The = after the path, not one in a filter.
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
			return false, "has no " + path, nil
		}
		if !hasValue || found[0] == want {
			return true, "", nil
		}
		return false, fmt.Sprintf("has %s=%s", path, found[0]), nil
	}, nil
}

// progressOf is what a pod does, in a few words: its state, how many of its
// containers are ready, and which image it waits for.
func progressOf(p *v1.Pod) string {
	ready, _, _ := podtable.Tally(p)
	text := fmt.Sprintf("%s, %d/%d ready", podtable.State(p), ready, podtable.Containers(p))
	if p.DeletionTimestamp != nil {
		return podtable.State(p)
	}
	images := map[string]string{}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			images[list[i].Name] = list[i].Image
		}
	}
	for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w == nil || w.Reason == "PodInitializing" {
				continue
			}
			text += fmt.Sprintf(", container %s with image %s", list[i].Name, images[list[i].Name])
			if w.Message != "" {
				text += ": " + terminal.OneLine(w.Message)
			}
			return text
		}
	}
	if m := podtable.Message(p); m != "" {
		text += ": " + terminal.OneLine(m)
	}
	return text
}

// untilRenewed is done when each container is another one than before, and the
// pod is ready or has done its work.
func Restarted(before *v1.Pod) Condition {
	old := containerIDs(before)
	return func(o *objects.Object) (bool, string, error) {
		p, err := objects.DecodePod(o)
		if err != nil || p == nil {
			return false, "is gone", err
		}
		for id := range containerIDs(p) {
			if old[id] {
				return false, "ends", nil
			}
		}
		if slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.ContainerID == "" }) {
			return false, progressOf(p), nil
		}
		return podReady(o)
	}
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

// errUnknownCondition reports that --for names no condition that can be waited for.
var ErrUnknownCondition = errors.New("unknown condition")

// await sets what is waited for.
func (w *Waiter) SetCondition(condition, value string, hasValue bool) error {
	var what Condition
	switch {
	case condition == "ready" && !hasValue && w.Kind.Name == "pods":
		what, w.Verb = podReady, "is ready"
	case condition == "ready" && !hasValue:
		what, w.Verb = hasCondition("Ready", "True"), "is ready"
	case condition == "delete" && !hasValue:
		what, w.Verb = deleted, "is gone"
	case condition == "condition" && value != "":
		name, state, given := strings.Cut(value, "=")
		if !given {
			state = "True"
		}
		what, w.Verb = hasCondition(name, state), "has condition "+name+"="+state
	case condition == "jsonpath" && value != "":
		found, err := hasField(value)
		if err != nil {
			return &objects.UsageError{Err: fmt.Errorf("--for: %w", err)}
		}
		what, w.Verb = found, "has "+value
	case condition == "revision" && value != "":
		what, w.Verb = hasRevision(value), "runs this revision"
	default:
		return ErrUnknownCondition
	}
	for _, t := range w.Targets {
		t.Condition = what
	}
	return nil
}
