package cli

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cmd/podstead/cli/jsonpath"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/podtable"
	"github.com/podstead/podstead/manifest"
)

// until looks at an object, nil if it is not there: whether that is what is
// waited for, what it does meanwhile, and an error if it will never be.
type until func(o *object) (done bool, meanwhile string, err error)

const notThere = "is not there yet"

func podOf(o *object) (*v1.Pod, error) {
	if o == nil {
		return nil, nil
	}
	var p v1.Pod
	if err := o.into(&p); err != nil {
		return nil, fmt.Errorf("cannot read a pod that podstead sent: %w", err)
	}
	return &p, nil
}

func untilGone(o *object) (bool, string, error) {
	p, err := podOf(o)
	if err != nil || p == nil {
		return err == nil, "", err
	}
	return false, progressOf(p), nil
}

// untilReady fails for a pod that has ended and is not run again.
func untilReady(o *object) (bool, string, error) {
	p, err := podOf(o)
	if err != nil || p == nil {
		return false, notThere, err
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
func untilRevision(hash string) until {
	return func(o *object) (bool, string, error) {
		p, err := podOf(o)
		if err != nil || p == nil {
			return false, notThere, err
		}
		if p.Annotations[podinfo.AnnotationHash] != hash && string(p.UID) != hash {
			return false, "is of another revision", nil
		}
		if p.Status.Phase == v1.PodSucceeded {
			return true, "", nil
		}
		return untilReady(o)
	}
}

func untilCondition(name, state string) until {
	return func(o *object) (bool, string, error) {
		if o == nil {
			return false, notThere, nil
		}
		var has struct {
			Status struct {
				Conditions []struct{ Type, Status, Reason, Message string }
			}
		}
		if err := o.into(&has); err != nil {
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

func untilField(text string) (until, error) {
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
	return func(o *object) (bool, string, error) {
		if o == nil {
			return false, notThere, nil
		}
		found := t.Texts(o.tree())
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
				text += ": " + oneLine(w.Message)
			}
			return text
		}
	}
	if m := podtable.Message(p); m != "" {
		text += ": " + oneLine(m)
	}
	return text
}
