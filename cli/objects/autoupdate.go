package objects

import (
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/cli/terminal"
)

// AutoUpdateTable returns the table of image updates.
func AutoUpdateTable(list []api.AutoUpdate) terminal.Table {
	t := terminal.Table{Header: []string{"NAMESPACE", "POD", "CONTAINER", "IMAGE", "POLICY", "STATE", "RUNNING", "LATEST"}}
	for _, u := range list {
		for _, c := range u.Containers {
			t.Rows = append(t.Rows, []string{u.Namespace, u.Name, c.Container, c.Image, u.Policy, c.State,
				terminal.OrNone(ShortID(c.Running)), terminal.OrNone(ShortID(c.Latest))})
		}
	}
	return t
}

// UpdateSchedule reports when the pod was checked and when it is due.
func UpdateSchedule(u *api.AutoUpdate, now time.Time) string {
	text := "never checked"
	if !u.Checked.IsZero() {
		text = "checked " + duration.HumanDuration(max(now.Sub(u.Checked), 0)) + " ago"
	}
	if u.Next.IsZero() {
		return text + ", waiting for the rollout"
	}
	return text + ", next in " + duration.HumanDuration(max(u.Next.Sub(now), 0))
}
