package poddns

import (
	"context"
	"log/slog"
	"net/netip"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/nameserver/zone"
)

// Names are what has names: the pods and Services of this node.
type Names struct {
	// Known returns once all pods are known.
	Known func(ctx context.Context) error
	// Pods are those with their statuses, BaseName is the name of a pod in its manifest.
	Pods        func() []*v1.Pod
	BaseName    func(*v1.Pod) string
	PodsChanged Subscribe
	// Namespace returns the path of the network namespace of a pod.
	Namespace func(ctx context.Context, pod *v1.Pod) (string, error)
	Services
}

// Services are those of the manifests.
type Services struct {
	List    func() []*v1.Service
	Changed Subscribe
}

// Subscribe notifies about changes until the function is called.
type Subscribe func() (changed <-chan struct{}, unsubscribe func())

// Publish writes the names of pods and Services when they change. The first time is once all
// pods are known: until then, the names of before the daemon's start are right.
func (s *Server) Publish(ctx context.Context, names Names) error {
	if err := names.Known(ctx); err != nil {
		return err
	}
	pods, unsubscribe := names.PodsChanged()
	defer unsubscribe()
	services, unsubscribeServices := names.Services.Changed()
	defer unsubscribeServices()
	var failed string
	before := s.keeper.Zone()
	for {
		z := zone.Build(s.domain, s.namedPods(&names, before), names.List())
		if err := s.keeper.Publish(z); err != nil {
			if failed != err.Error() {
				s.cfg.Log.Warn("Failed to publish the names of pods, retrying at the next change", "err", err)
			}
			failed = err.Error()
		}
		s.checkReachable(ctx, &names)
		select {
		case <-pods:
		case <-services:
		case <-ctx.Done():
			return nil
		}
	}
}

// namedPods returns the pods that have names. A pod whose status is not known yet, since the
// daemon has just started, has the addresses of before.
func (s *Server) namedPods(names *Names, before zone.Zone) (pods []zone.Pod) {
	for _, pod := range names.Pods() {
		if !podinfo.PolicyOf(pod).Static {
			continue
		}
		named := zone.Pod{Pod: pod, Base: names.BaseName(pod)}
		if len(pod.Status.Conditions) == 0 && pod.DeletionTimestamp == nil {
			named.Pod = withAddresses(pod, before.Names[zone.Name(named.Base, pod.Namespace, s.domain)].Addresses)
		}
		pods = append(pods, named)
	}
	return pods
}

// withAddresses returns a copy of a pod that is Ready with these addresses; the pod itself
// without any.
func withAddresses(pod *v1.Pod, addresses []netip.Addr) *v1.Pod {
	if len(addresses) == 0 {
		return pod
	}
	copied := *pod
	copied.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	copied.Status.PodIPs = nil
	for _, a := range addresses {
		copied.Status.PodIPs = append(copied.Status.PodIPs, v1.PodIP{IP: a.String()})
	}
	return &copied
}

// WarnOfServices reports once that Services have no effect, on a node whose pods have no name
// server for them.
func WarnOfServices(ctx context.Context, services Services, events Recorder, log *slog.Logger) error {
	changed, unsubscribe := services.Changed()
	defer unsubscribe()
	for len(services.List()) == 0 {
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
	const message = "The Services among the manifests have no effect, because the pods of this node have no name server " +
		"for them; set --pod-dns=always (podDNS)"
	log.Warn(message)
	events.Event(nil, v1.EventTypeWarning, "ServiceWithoutNameserver", message)
	return nil
}
