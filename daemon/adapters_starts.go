package daemon

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/supervisor"
)

// startView serves the durations of starts to the API.
type startView struct{ pods *supervisor.Supervisor }

// PodStart implements httpapi.StartReader.
func (v startView) PodStart(uid types.UID) (httpapi.PodStart, bool) {
	d, ok := v.pods.StartDuration(uid)
	start := httpapi.PodStart{Seconds: d.Took.Seconds(), Steps: make([]httpapi.StartStep, 0, len(d.Steps))}
	for _, step := range d.Steps {
		start.Steps = append(start.Steps, httpapi.StartStep{Name: step.Name, Seconds: step.Took.Seconds()})
	}
	return start, ok
}
