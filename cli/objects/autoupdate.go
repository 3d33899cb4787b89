package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/cli/terminal"
)

// AutoUpdate is what is known of the image updates of a pod, in podstead's own API.
type AutoUpdate struct {
	Namespace  string                 `json:"namespace"`
	Name       string                 `json:"name"`
	Policy     string                 `json:"policy"`
	Checked    time.Time              `json:"checked,omitzero"`
	Next       time.Time              `json:"next,omitzero"`
	Containers []ContainerImageUpdate `json:"containers"`
}

// ContainerImageUpdate is what the last check found about a container.
type ContainerImageUpdate struct {
	Container string `json:"container"`
	Image     string `json:"image"`
	State     string `json:"state"`
	Running   string `json:"running,omitempty"`
	Latest    string `json:"latest,omitempty"`
	Message   string `json:"message,omitempty"`
}

// UpdateFailed is the State of a container whose newest image could not be determined, or not
// be rolled out.
const UpdateFailed = "Failed"

// AutoUpdateTable returns the table of image updates.
func AutoUpdateTable(list []AutoUpdate) terminal.Table {
	t := terminal.Table{Header: []string{"NAMESPACE", "POD", "CONTAINER", "IMAGE", "POLICY", "STATE", "RUNNING", "LATEST"}}
	for _, u := range list {
		for _, c := range u.Containers {
			t.Rows = append(t.Rows, []string{u.Namespace, u.Name, c.Container, c.Image, u.Policy, c.State, terminal.OrNone(ShortID(c.Running)), terminal.OrNone(ShortID(c.Latest))})
		}
	}
	return t
}

// Schedule says when the pod was checked and when it is due.
func (u *AutoUpdate) Schedule(now time.Time) string {
	text := "never checked"
	if !u.Checked.IsZero() {
		text = "checked " + duration.HumanDuration(max(now.Sub(u.Checked), 0)) + " ago"
	}
	if u.Next.IsZero() {
		return text + ", waiting for the rollout"
	}
	return text + ", next in " + duration.HumanDuration(max(u.Next.Sub(now), 0))
}
