package supervisor

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/podworkers"
	"github.com/podstead/podstead/supervisor/status"
)

// loopback is where a pod on the host's network is probed while no address of
// the node is known. The kubelet without an API server asks the same.
const loopback = "127.0.0.1"

// probing tells whether a pod has probes, and somebody to ask them.
func (s *podSyncer) probing(pod *v1.Pod) bool {
	return s.cfg.Sources.Probes != nil && pod != nil && slices.ContainsFunc(probedContainers(pod), hasProbes)
}

// probedContainers are those of a pod that may have probes: sidecars, and the
// regular ones.
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

// setProbes says what of a pod runs. It comes before a status is made of the
// same look, so that no new container is taken for ready before it was asked.
func (s *podSyncer) setProbes(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) {
	if !s.probing(pod) {
		return
	}
	target := probe.Pod{Pod: pod, IP: s.probedIP(pod, observed)}
	for _, spec := range probedContainers(pod) {
		running := observed.Newest(spec.Name)
		if !hasProbes(spec) || running == nil || running.State != cri.StateRunning || inPostStart(spec, running, rec) {
			continue
		}
		c := probe.Container{Spec: expandProbes(spec), ID: running.ID, StartedAt: running.StartedAt}
		// The kubelet keeps the readiness of what runs for 10 s and more; the
		// record knows of which instance it was.
		if known, ok := rec.Ready[spec.Name]; ok && known.ContainerID == running.ID {
			c.Previous = &probe.PreviousState{Ready: known.Ready, Started: known.Started}
		}
		target.Containers = append(target.Containers, c)
	}
	s.cfg.Sources.Probes.UpdatePod(target)
}

// probedIP is the address at which a pod is asked: the one in its status.
func (s *podSyncer) probedIP(pod *v1.Pod, observed *cri.PodStatus) string {
	if ips := status.PodIPs(pod, observed, s.cfg.Network.HostIPs.Addresses()); len(ips) > 0 {
		return ips[0]
	}
	if pod.Spec.HostNetwork {
		return loopback
	}
	return ""
}

// expandProbes is the container with the references to its variables in the
// commands of its probes replaced; itself if there are none.
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

// failedProbes are the containers to be killed for a probe.
func (s *podSyncer) failedProbes(uid types.UID) map[string]cri.KillReason {
	if s.cfg.Sources.Probes == nil {
		return nil
	}
	failed := s.cfg.Sources.Probes.Results(uid).Failed
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

// startedContainers are those that have started by their startup probes, nil if
// nobody probes.
func (s *podSyncer) startedContainers(uid types.UID) map[string]bool {
	if s.cfg.Sources.Probes == nil {
		return nil
	}
	if started := s.cfg.Sources.Probes.Results(uid).Started; started != nil {
		return started
	}
	return map[string]bool{}
}

// stopProbes ends what may kill a container, removeProbes all.
func (s *podSyncer) stopProbes(uid types.UID) {
	if s.cfg.Sources.Probes != nil {
		s.cfg.Sources.Probes.StopLivenessAndStartup(uid)
	}
}

func (s *podSyncer) removeProbes(uid types.UID) {
	if s.cfg.Sources.Probes != nil {
		s.cfg.Sources.Probes.RemovePod(uid)
	}
}

// withStatusRefresh acts, and keeps probes and status of a pod with probes or hooks up to date
// until the act is over: a pull or a grace period may take minutes, in which
// readiness goes on changing. It returns the newest look. The act must not
// touch r.
func (s *podSyncer) withStatusRefresh(ctx context.Context, j podworkers.SyncJob, r *runState, observed *cri.PodStatus, act func()) *cri.PodStatus {
	if !s.probing(j.Pod) && !hasHooks(j.Pod) || j.Notified == nil {
		act()
		return observed
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		act()
	}()
	for {
		select {
		case <-over:
			return observed
		case <-j.Notified:
			// The worker is dirty and comes again, whoever took its wake-up.
		}
		newer, err := s.cfg.Runtime.Observer.NewerThan(ctx, j.Pod.UID, r.lastAct)
		if err != nil {
			<-over
			return observed
		}
		observed = newer
		s.cfg.Runtime.Syncer.CancelEndedHooks(observed)
		s.setProbes(j.Pod, observed, r.record)
		s.publish(j, r, observed, statusOverrides{acting: true})
	}
}
