package podprobes

import (
	"maps"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/probe"
	"github.com/podstead/podstead/supervisor/status"
)

// hooked reports whether a container has a postStart hook. Until the hook has
// returned the container has not started: it is not probed, and neither started nor
// ready. The record has the instances whose hooks have returned, so that a daemon
// that was restarted in between runs the others again.
func hooked(c *v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PostStart != nil }

// HasPostStart reports whether a container of the pod has a postStart hook.
func HasPostStart(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, c := range Containers(pod) {
		if hooked(c) {
			return true
		}
	}
	return false
}

// HasHooks reports whether a container of the pod has a hook of any kind.
func HasHooks(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	for _, c := range Containers(pod) {
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

// AssumePostStartDone records the hooks of everything that runs as done, because the
// record is lost. The kubelet, too, runs no hook of a container that it finds
// running.
func AssumePostStartDone(pod *v1.Pod, observed *cri.PodStatus, rec status.Record) status.Record {
	for _, spec := range Containers(pod) {
		if running := observed.Newest(spec.Name); hooked(spec) && running != nil && running.State == cri.StateRunning {
			rec = WithPostStart(rec, map[string]string{spec.Name: running.ID})
		}
	}
	return rec
}

// WithPostStart returns the record with hooks that have returned.
func WithPostStart(rec status.Record, done map[string]string) status.Record {
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
	for _, spec := range Containers(pod) {
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
