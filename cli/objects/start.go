package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cli/client"
)

// PodStart is how long a pod took to start, as the daemon reports it.
type PodStart struct {
	UID     types.UID   `json:"uid"`
	Seconds float64     `json:"seconds"`
	Steps   []StartStep `json:"steps"`
}

// StartStep is a part of a start.
type StartStep struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// FindStart returns how long a pod took to start; nil if the daemon did not start it, and of
// a daemon that was not restarted since an upgrade and does not know.
func FindStart(ctx context.Context, c *client.Client, pod *v1.Pod) (*PodStart, error) {
	var list []PodStart
	err := c.Get(ctx, "/podstead/v1/starts", &list)
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

// String returns the duration with its steps, such as "0.19 s: sandbox 0.11, create 0.03".
// Steps of less than 5 ms are left out.
func (s *PodStart) String() string {
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
