package main

import (
	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/probe"
)

// podStates shows the metrics what the runtime has of each pod.
func podStates(o *cri.Observed) []metrics.PodState {
	states := make([]metrics.PodState, len(o.Own))
	for i, pod := range o.Own {
		s := &states[i]
		s.UID, s.Namespace, s.Name, s.Running = pod.UID, pod.Namespace, pod.Name, pod.Running()
		for j := range pod.Sandboxes {
			s.SandboxReady = s.SandboxReady || pod.Sandboxes[j].Ready
		}
		for j := range pod.Containers {
			switch pod.Containers[j].State {
			case cri.StateCreated:
				s.Containers.Created++
			case cri.StateRunning:
				s.Containers.Running++
			case cri.StateExited:
				s.Containers.Exited++
			default:
				s.Containers.Unknown++
			}
		}
	}
	return states
}

// probeCounts shows the metrics the results of probes.
func probeCounts(counts []probe.Count) []metrics.ProbeCount {
	list := make([]metrics.ProbeCount, len(counts))
	for i := range counts {
		c := &counts[i]
		buckets := make(map[float64]uint64, len(probe.Buckets))
		for j, bound := range probe.Buckets {
			buckets[bound] = c.Within[j]
		}
		list[i] = metrics.ProbeCount{
			UID: c.UID, Namespace: c.Namespace, Pod: c.Pod, Container: c.Container, Type: c.Kind.String(),
			Succeeded: c.Succeeded, Failed: c.Failed, Unknown: c.Unknown, Took: c.Took, Buckets: buckets,
		}
	}
	return list
}
