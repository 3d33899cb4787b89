package cri

import (
	"fmt"
	"strconv"
	"strings"
)

// namedError is an error of the runtime with the names of containers instead of their IDs.
type namedError struct {
	text string
	err  error
}

func (e *namedError) Error() string { return e.text }
func (e *namedError) Unwrap() error { return e.err }

// withNames returns an error with the names of the pod's containers instead of their IDs, and without the IDs of its
// sandboxes, of which a pod has one at a time: an ID of 64 digits means nothing to a user, and the pod is known.
func withNames(err error, pod *Pod) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for i := range pod.Containers {
		text = replaceID(text, pod.Containers[i].ID, " "+strconv.Quote(pod.Containers[i].Name))
	}
	for i := range pod.Sandboxes {
		text = replaceID(text, pod.Sandboxes[i].ID, "")
	}
	if text == err.Error() {
		return err
	}
	return &namedError{text: text, err: err}
}

// shortID is how many digits of an ID are left within other texts, such as a path.
const shortID = 12

// replaceID replaces an ID that is a word of its own, also in quotes, by a name, which begins with a space or is empty.
// Within a longer word it is shortened.
func replaceID(text, id, name string) string {
	if len(id) <= shortID {
		return text
	}
	for _, word := range []string{fmt.Sprintf(" %q", id), " " + id} {
		for _, end := range []string{" ", ":", ",", ";", "\n"} {
			text = strings.ReplaceAll(text, word+end, name+end)
		}
		if before, ok := strings.CutSuffix(text, word); ok {
			text = before + name
		}
	}
	return strings.ReplaceAll(text, id, id[:shortID])
}
