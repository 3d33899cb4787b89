package daemon

import (
	"context"
	"sync/atomic"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/node/nodestatus"
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

// machine returns facts of this machine.
func machine() metrics.Machine {
	host := nodestatus.ReadHost("/")
	cores, sockets := nodestatus.Topology("/")
	return metrics.Machine{
		ID: host.MachineID, SystemUUID: host.SystemUUID, BootID: host.BootID, Kernel: host.Kernel, OS: host.OS,
		PhysicalCores: cores, Sockets: sockets,
	}
}

// sandboxImage returns the runtime's image of sandboxes. It asks the runtime until the first
// answer.
func sandboxImage(client *cri.Client) func(context.Context) string {
	var known atomic.Pointer[string]
	return func(ctx context.Context) string {
		if image := known.Load(); image != nil {
			return *image
		}
		image, err := client.SandboxImage(ctx)
		if err != nil {
			return ""
		}
		known.Store(&image)
		return image
	}
}
