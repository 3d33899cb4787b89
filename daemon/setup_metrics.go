package daemon

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/httpapi"
	"github.com/podstead/podstead/httpapi/metrics"
	"github.com/podstead/podstead/internal/buildinfo"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/usage"
	"github.com/podstead/podstead/manifest"
	"github.com/podstead/podstead/supervisor"
)

// newMetrics creates the endpoints that Prometheus scrapes.
func (d *daemon) newMetrics() httpapi.Metrics {
	p := &d.observers
	e := metrics.New(p.counters, metrics.Sources{
		NodeName: d.nodeName, Version: buildinfo.Version(),
		Pods:       func() []metrics.PodState { return podStates(p.pleg.Observed()) },
		LastRelist: func() time.Time { return p.pleg.Stats().LastRelist },
		Workers:    func() []metrics.Worker { return workersOf(d.sup) },
		Statuses:   p.statuses.List,
		Manifests:  func() []metrics.Manifests { return manifestsOf(d.sources.config.Snapshot()) },
		Claims:     func() []metrics.Claim { return claimsOf(d.claimUsage()) },
		Probes:     func() []metrics.ProbeCount { return probeCounts(p.prober.Counts()) },
		Specs:      d.sup.Pods,
		Stats:      p.stats, Machine: machine, SandboxImage: sandboxImage(d.runtime.client), Log: d.log,
		Unwritten: func() int { return len(d.unwritten.List()) }, MemoryQoS: d.protectedMemory, RolledBack: d.rolledBack, PodDNSReady: d.podDNSReady(),
	})
	return httpapi.Metrics{Kubelet: e.Kubelet(), Resource: e.Resource(), Probes: e.Probes(), Cadvisor: e.Cadvisor()}
}

func workersOf(sup *supervisor.Supervisor) (list []metrics.Worker) {
	for kind, count := range sup.Workers() {
		list = append(list, metrics.Worker{Config: kind.Config, Lifecycle: kind.Lifecycle, Static: kind.Static, Count: count})
	}
	return list
}

func manifestsOf(views []manifest.SourceView) (list []metrics.Manifests) {
	for _, v := range views {
		one := metrics.Manifests{Source: string(v.Source), Ready: v.Delivered || (v.Fault == nil || v.Fault.Warning) && len(v.Incomplete) > 0, Incomplete: len(v.Incomplete), Files: len(v.Units), LastGood: v.LastGood, LastRead: v.LastRead}
		switch {
		case v.Fault == nil:
		case v.Fault.Warning:
			one.Warnings++
		default:
			one.Faults++
		}
		for _, u := range v.Units {
			for _, f := range u.Faults {
				if f.Warning {
					one.Warnings++
				} else {
					one.Faults++
				}
			}
		}
		list = append(list, one)
	}
	return list
}

// claimsOf returns the claims that pods use, with their usage.
func claimsOf(u claimUsage) (list []metrics.Claim) {
	claims := u.list()
	volumes := u.recent(context.Background(), claims)
	for i := range claims {
		c := &claims[i]
		if volume := volumes[c.MountPath]; volume != nil && len(c.Users) > 0 {
			list = append(list, metrics.Claim{Namespace: c.Namespace, Name: c.Name, ClaimVolume: *volume})
		}
	}
	return addClusterClaims(list, u.pods.Pods(), u.pods.PodClaimPath, volumes)
}

// addClusterClaims adds the claims that pods of a cluster use. path returns where the content of a pod's volume
// is. A claim is listed once, also if several pods use it, or if a manifest has a claim of its name: metrics must
// not repeat.
func addClusterClaims(list []metrics.Claim, pods []*v1.Pod, path func(uid types.UID, volume string) string, volumes usage.ClaimVolumes) []metrics.Claim {
	type name struct{ namespace, claim string }
	seen := map[name]bool{}
	for i := range list {
		seen[name{list[i].Namespace, list[i].Name}] = true
	}
	for _, pod := range pods {
		if !podinfo.IsAPI(pod) {
			continue
		}
		for i := range pod.Spec.Volumes {
			claim := name{pod.Namespace, podinfo.ClaimOf(pod, &pod.Spec.Volumes[i])}
			if claim.claim == "" || seen[claim] {
				continue
			}
			if volume := volumes[path(pod.UID, pod.Spec.Volumes[i].Name)]; volume != nil {
				seen[claim] = true
				list = append(list, metrics.Claim{Namespace: claim.namespace, Name: claim.claim, ClaimVolume: *volume})
			}
		}
	}
	return list
}

// requestCounter counts the requests to the API.
func requestCounter(c *metrics.Counters) func(httpapi.Request) func() {
	return func(r httpapi.Request) func() { return c.Request(r.Method, r.Path, r.LongRunning) }
}
