package supervisor

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/status"
)

// loopback is where a pod on the host's network is probed while no address of the
// node is known, as at a kubelet without an API server.
const loopback = "127.0.0.1"

// podProbes tells the prober which containers run, and reads the results.
type podProbes struct {
	// prober is nil if nothing is probed.
	prober  Probes
	hostIPs HostIPs
}

// active reports whether the pod is probed.
func (s *podProbes) active(pod *v1.Pod) bool {
	return s.prober != nil && slices.ContainsFunc(probedContainers(pod), hasProbes)
}

// probedContainers returns the containers that may have probes: sidecars and regular
// ones.
func probedContainers(pod *v1.Pod) []*v1.Container {
	list := make([]*v1.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; podinfo.IsSidecar(c) {
			list = append(list, c)
		}
	}
	for i := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[i])
	}
	return list
}

func hasProbes(c *v1.Container) bool {
	return c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil
}

// set tells the prober which containers of a pod run. It comes before a status is
// generated from the same observation, so that no new container is shown as ready
// before its first probe.
func (s *podProbes) set(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) {
	if !s.active(pod) {
		return
	}
	target := probe.Pod{Pod: pod, IP: s.probedIP(pod, observed)}
	for _, spec := range probedContainers(pod) {
		running := observed.Newest(spec.Name)
		if !hasProbes(spec) || running == nil || running.State != cri.StateRunning || inPostStart(spec, running, rec) {
			continue
		}
		c := probe.Container{Spec: expandProbes(spec), ID: running.ID, StartedAt: running.StartedAt}
		// The kubelet keeps the readiness of what runs for 10 s and more; here the
		// record has it, with the instance.
		if known, ok := rec.Ready[spec.Name]; ok && known.ContainerID == running.ID {
			c.Previous = &probe.PreviousState{Ready: known.Ready, Started: known.Started}
		}
		target.Containers = append(target.Containers, c)
	}
	s.prober.UpdatePod(target)
}

// probedIP returns the address at which a pod is probed: the one in its status.
func (s *podProbes) probedIP(pod *v1.Pod, observed *cri.PodStatus) string {
	if ips := status.PodIPs(pod, observed, s.hostIPs.Addresses()); len(ips) > 0 {
		return ips[0]
	}
	if pod.Spec.HostNetwork {
		return loopback
	}
	return ""
}

// expandProbes returns the container with the references to its variables in the
// commands of its probes expanded; the container itself if there are none.
func expandProbes(c *v1.Container) *v1.Container {
	expands := func(p *v1.Probe) bool {
		return p != nil && p.Exec != nil && slices.ContainsFunc(p.Exec.Command, func(arg string) bool { return strings.Contains(arg, "$") })
	}
	if !expands(c.StartupProbe) && !expands(c.LivenessProbe) && !expands(c.ReadinessProbe) {
		return c
	}
	values := podinputs.LiteralEnv(c)
	c = c.DeepCopy()
	for _, p := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if expands(p) {
			for i, arg := range p.Exec.Command {
				p.Exec.Command[i] = cri.Expand(arg, values)
			}
		}
	}
	return c
}

// failed returns the containers to be killed for a probe.
func (s *podProbes) failed(uid types.UID) map[string]cri.KillReason {
	if s.prober == nil {
		return nil
	}
	failed := s.prober.Results(uid).Failed
	if len(failed) == 0 {
		return nil
	}
	reasons := make(map[string]cri.KillReason, len(failed))
	for id, kind := range failed {
		reasons[id] = cri.KillLiveness
		if kind == probe.Startup {
			reasons[id] = cri.KillStartup
		}
	}
	return reasons
}

// started returns the containers that have started according to their startup
// probes, nil if nothing is probed.
func (s *podProbes) started(uid types.UID) map[string]bool {
	if s.prober == nil {
		return nil
	}
	if started := s.prober.Results(uid).Started; started != nil {
		return started
	}
	return map[string]bool{}
}

// stop ends the probes that could kill a container, remove all probes.
func (s *podProbes) stop(uid types.UID) {
	if s.prober != nil {
		s.prober.StopLivenessAndStartup(uid)
	}
}

func (s *podProbes) remove(uid types.UID) {
	if s.prober != nil {
		s.prober.RemovePod(uid)
	}
}

// results returns the readiness of the pod's containers, by container ID.
func (s *podProbes) results(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) (results probe.Results) {
	if s.prober != nil {
		results = s.prober.Results(pod.UID)
	}
	return withoutPendingHooks(pod, observed, rec, results)
}

// hostIP returns the node's address for hooks of pods on the host's network, empty
// if none is known.
func (s *podProbes) hostIP() string {
	if ips := s.hostIPs.Addresses(); len(ips) > 0 {
		return ips[0]
	}
	return ""
}

// hooked reports whether a container has a postStart hook. Until the hook has
// returned the container has not started: it is not probed, and neither started nor
// ready. The record has the instances whose hooks have returned, so that a daemon
// that was restarted in between runs the others again.
func hooked(c *v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PostStart != nil }

// hasPostStart reports whether a container of the pod has a postStart hook.
func hasPostStart(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, c := range probedContainers(pod) {
		if hooked(c) {
			return true
		}
	}
	return false
}

// hasHooks reports whether a container of the pod has a hook of any kind.
func hasHooks(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, c := range probedContainers(pod) {
		if hooked(c) || c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
			return true
		}
	}
	return false
}

// inPostStart reports whether the hook of a running instance is not known to
// have returned.
func inPostStart(spec *v1.Container, running *cri.Container, rec status.Record) bool {
	return hooked(spec) && rec.PostStart[spec.Name] != running.ID
}

// assumePostStartDone records the hooks of everything that runs as done, because the
// record is lost. The kubelet, too, runs no hook of a container that it finds
// running.
func assumePostStartDone(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) status.Record {
	for _, spec := range probedContainers(pod) {
		if running := observed.Newest(spec.Name); hooked(spec) && running != nil && running.State == cri.StateRunning {
			rec = withPostStart(rec, map[string]string{spec.Name: running.ID})
		}
	}
	return rec
}

// withPostStart returns the record with hooks that have returned.
func withPostStart(rec status.Record, done map[string]string) status.Record {
	if len(done) == 0 {
		return rec
	}
	all := maps.Clone(rec.PostStart)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, done)
	rec.PostStart = all
	return rec
}

// withoutPendingHooks returns the probe results, with the containers neither started
// nor ready whose postStart hook has not returned.
func withoutPendingHooks(pod *v1.Pod, observed *cri.PodStatus, rec status.Record, results probe.Results) probe.Results {
	for _, spec := range probedContainers(pod) {
		running := observed.Newest(spec.Name)
		if running == nil || running.State != cri.StateRunning || !inPostStart(spec, running, rec) {
			continue
		}
		results.Started = withFalse(results.Started, running.ID)
		results.Ready = withFalse(results.Ready, running.ID)
	}
	return results
}

func withFalse(m map[string]bool, id string) map[string]bool {
	if m == nil {
		m = map[string]bool{}
	}
	m[id] = false
	return m
}
