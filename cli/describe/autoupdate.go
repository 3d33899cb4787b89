package describe

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	"github.com/podstead/podstead/cli/terminal"
)

// autoUpdateOf returns what is known of the image updates of a pod, nil if nothing is.
func autoUpdateOf(ctx context.Context, c *client.Client, pod *v1.Pod) (*api.AutoUpdate, error) {
	list, err := c.AutoUpdates(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if u := &list[i]; u.Namespace == pod.Namespace && u.Name == pod.Name {
			return u, nil
		}
	}
	return nil, nil
}

// imageUpdates adds the image updates of the pod, if it has any.
func (d PodDescription) imageUpdates(r *terminal.Report) {
	if d.Update == nil {
		return
	}
	r.Field(0, valueColumn, "Image Updates", d.Update.Policy+", "+objects.UpdateSchedule(d.Update, d.Now))
	if len(d.Update.Containers) == 0 {
		return
	}
	t := terminal.Table{Header: []string{"Container", "State", "Running", "Latest", "Message"}}
	for _, c := range d.Update.Containers {
		t.Rows = append(t.Rows, []string{c.Container, c.State, terminal.OrNone(c.Running), terminal.OrNone(c.Latest),
			terminal.OneLine(c.Message)})
	}
	r.Table("Images", t)
}
