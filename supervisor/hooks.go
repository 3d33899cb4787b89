package supervisor

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/status"
)

// hooked tells whether a container has a postStart hook. Until that has
// returned the container has not started: nothing probes it, it is neither
// started nor ready. Which instances' hooks have returned is in the record, so
// that a daemon that was restarted withStatusRefresh performs them again.
func hooked(c *v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PostStart != nil }

// hasPostStart tells whether a pod has such a container.
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

// hasHooks tells whether a pod has a hook of any kind.
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

// assumeHooked takes the hooks of everything that runs for done: nobody
// remembers, since the record is lost. It is as with the kubelet, which
// performs no hook of a container that it finds running.
func assumeHooked(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) status.Record {
	for _, spec := range probedContainers(pod) {
		if running := observed.Newest(spec.Name); hooked(spec) && running != nil && running.State == cri.StateRunning {
			rec = withPostStart(rec, map[string]string{spec.Name: running.ID})
		}
	}
	return rec
}

// withPostStart is the record with hooks that have returned.
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

// withoutUnhooked are the probes' results with those containers neither started
// nor ready whose postStart hook has not returned.
func withoutUnhooked(pod *v1.Pod, observed *cri.PodStatus, rec status.Record, results probe.Results) probe.Results {
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

// hostIP is the node's address for hooks of pods on its network, empty if none
// is known.
func (s *podSyncer) hostIP() string {
	if ips := s.cfg.Network.HostIPs.Addresses(); len(ips) > 0 {
		return ips[0]
	}
	return ""
}
