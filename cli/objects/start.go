package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api"
	"github.com/podstead/podstead/api/client"
)

// FindStart returns how long a pod took to start; nil if the daemon did not start it, and of
// a daemon that was not restarted since an upgrade and does not know.
func FindStart(ctx context.Context, c *client.Client, pod *v1.Pod) (*api.PodStart, error) {
	list, err := c.PodStarts(ctx)
	if status := (*client.StatusError)(nil); errors.As(err, &status) && status.Code == http.StatusNotFound {
		return nil, nil
	}
	for i := range list {
		if list[i].UID == pod.UID {
			return &list[i], err
		}
	}
	return nil, err
}

// StartSummary returns the duration of a start with its steps, such as "0.19 s: sandbox 0.11, create 0.03".
// Steps of less than 5 ms are left out.
func StartSummary(s *api.PodStart) string {
	var steps []string
	for _, step := range s.Steps {
		if text := fmt.Sprintf("%.2f", step.Seconds); text != "0.00" {
			steps = append(steps, step.Name+" "+text)
		}
	}
	text := fmt.Sprintf("%.2f s", s.Seconds)
	if len(steps) > 0 {
		text += ": " + strings.Join(steps, ", ")
	}
	return text
}
