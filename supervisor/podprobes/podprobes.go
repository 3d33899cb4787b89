package podprobes

import (
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/noderesources"
	"github.com/podstead/podstead/supervisor/podinputs"
	"github.com/podstead/podstead/supervisor/status"
)

// loopback is where a pod on the host's network is probed while no address of the
// node is known, as at a kubelet without an API server.
const loopback = "127.0.0.1"

// Prober probes the containers of pods. None of its methods waits for anything. Implemented by probe.Prober.
type Prober interface {
	// UpdatePod sets which containers of a pod run.
	UpdatePod(pod probe.Pod)
	// Results returns the results of a pod, by container ID. A container without an
	// entry has not failed, and is ready and started once it runs.
	Results(uid types.UID) probe.Results
	// StopLivenessAndStartup ends the probes that can kill a container, RemovePod
	// all probes of a pod.
	StopLivenessAndStartup(uid types.UID)
	RemovePod(uid types.UID)
	// Changed receives after a result changed; TakeChanged returns whose, once.
	Changed() <-chan struct{}
	TakeChanged() []types.UID
}

// Pods tells the prober which containers run, and reads the results. It is the probes in the list of what a
// pod needs of its node.
type Pods struct {
	noderesources.NeverRefuses
	// Prober is nil if nothing is probed.
	Prober Prober
	// Addresses returns the node's addresses, the primary one first.
	Addresses func() []string
}

// Active reports whether the pod is probed.
func (p *Pods) Active(pod *v1.Pod) bool {
	return p.Prober != nil && slices.ContainsFunc(Containers(pod), HasProbes)
}

// Containers returns the containers that may have probes: sidecars and regular
// ones.
func Containers(pod *v1.Pod) []*v1.Container {
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

// HasProbes reports whether a container has a probe of any kind.
func HasProbes(c *v1.Container) bool {
	return c.StartupProbe != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil
}

// Set tells the prober which containers of a pod run. It comes before a status is
// generated from the same observation, so that no new container is shown as ready
// before its first probe.
func (p *Pods) Set(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) {
	if !p.Active(pod) {
		return
	}
	target := probe.Pod{Pod: pod, IP: p.probedIP(pod, observed)}
	for _, spec := range Containers(pod) {
		running := observed.Newest(spec.Name)
		if !HasProbes(spec) || running == nil || running.State != cri.StateRunning || inPostStart(spec, running, rec) {
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
	p.Prober.UpdatePod(target)
}

// probedIP returns the address at which a pod is probed: the one in its status.
func (p *Pods) probedIP(pod *v1.Pod, observed *cri.PodStatus) string {
	if ips := status.PodIPs(pod, observed, p.Addresses()); len(ips) > 0 {
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
		return p != nil && p.Exec != nil &&
			slices.ContainsFunc(p.Exec.Command, func(arg string) bool { return strings.Contains(arg, "$") })
	}
	if !expands(c.StartupProbe) && !expands(c.LivenessProbe) && !expands(c.ReadinessProbe) {
		return c
	}
	values, size := podinputs.LiteralEnv(c), 0
	c = c.DeepCopy()
	for _, p := range []*v1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if expands(p) {
			for i, arg := range p.Exec.Command {
				// One that is too long is cut above what the kernel takes, so that
				// the probe fails with the kernel's error.
				if size <= cri.MaxEnvironment {
					p.Exec.Command[i], _ = cri.Expand(arg, values)
					size += len(p.Exec.Command[i])
				}
			}
		}
	}
	return c
}

// Failed returns the containers to be killed for a probe.
func (p *Pods) Failed(uid types.UID) map[string]cri.KillReason {
	if p.Prober == nil {
		return nil
	}
	failed := p.Prober.Results(uid).Failed
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

// Started returns the containers that have started according to their startup
// probes, nil if nothing is probed.
func (p *Pods) Started(uid types.UID) map[string]bool {
	if p.Prober == nil {
		return nil
	}
	if started := p.Prober.Results(uid).Started; started != nil {
		return started
	}
	return map[string]bool{}
}

// Stop ends the probes that could kill a container.
func (p *Pods) Stop(uid types.UID) {
	if p.Prober != nil {
		p.Prober.StopLivenessAndStartup(uid)
	}
}

// Name implements noderesources.Resource.
func (p *Pods) Name() string { return "probes" }

// Release implements noderesources.Releaser: it ends all probes.
func (p *Pods) Release(_ context.Context, uid types.UID, _ bool) error {
	if p.Prober != nil {
		p.Prober.RemovePod(uid)
	}
	return nil
}

// Changed implements noderesources.Changer.
func (p *Pods) Changed() <-chan struct{} {
	if p.Prober == nil {
		return nil
	}
	return p.Prober.Changed()
}

// TakeChanged implements noderesources.Changer.
func (p *Pods) TakeChanged() ([]types.UID, bool) { return p.Prober.TakeChanged(), false }

// Results returns the readiness of the pod's containers, by container ID.
func (p *Pods) Results(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) (results probe.Results) {
	if p.Prober != nil {
		results = p.Prober.Results(pod.UID)
	}
	return withoutPendingHooks(pod, observed, rec, results)
}

// HostIP returns the node's address for hooks of pods on the host's network, empty
// if none is known.
func (p *Pods) HostIP() string {
	if ips := p.Addresses(); len(ips) > 0 {
		return ips[0]
	}
	return ""
}
