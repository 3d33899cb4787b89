package poddns

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/node/firewall"
	"github.com/podstead/podstead/node/nameserver"
)

// reachInterval is the least time between two queries from pods while none is answered.
const reachInterval = 30 * time.Second

// reachability is whether packets of pods arrive at the name server. A firewall of the host can
// drop them, and pods would not resolve any name.
type reachability struct {
	mu sync.Mutex
	// checked: the result is known to be good, or is asked for again only after next.
	checked bool
	next    time.Time
	err     error
}

// result returns why pods do not reach the name server, nil if they do or it is not known.
func (r *reachability) result() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// begin reports whether the next query may be sent.
func (r *reachability) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.checked || time.Now().Before(r.next) {
		return false
	}
	r.next = time.Now().Add(reachInterval)
	return true
}

// set records the result, and reports whether it differs from that before.
func (r *reachability) set(err error) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = (err == nil) != (r.err == nil)
	r.checked, r.err = err == nil, err
	return changed
}

// checkReachable sends a query from a pod to the name server, until one was answered. It is called
// when pods changed.
func (s *Server) checkReachable(ctx context.Context, names *Names) {
	if !s.cfg.Given || len(s.gateways) == 0 || !s.keeper.Listening(s.gateways[0]) {
		return
	}
	for _, pod := range names.Pods() {
		if pod.Spec.HostNetwork || !podinfo.PolicyOf(pod).Static || pod.Status.Phase != v1.PodRunning ||
			!hasAddressIn(pod, s.networks) {
			continue
		}
		if !s.reach.begin() {
			return
		}
		namespace, err := names.Namespace(ctx, pod)
		if err != nil {
			return // the pod has just ended
		}
		err = nameserver.Reach(ctx, namespace, netip.AddrPortFrom(s.gateways[0], firewall.DNSPort), s.domain)
		if errors.Is(err, nameserver.ErrNamespace) || ctx.Err() != nil {
			return // the runtime is in other namespaces, or the pod has just ended
		}
		if s.reach.set(err) {
			s.reportReachable(err)
		}
		return
	}
}

func (s *Server) reportReachable(err error) {
	if err == nil {
		s.cfg.Log.Info("Pods reach their name server")
		s.cfg.Events.Event(nil, v1.EventTypeNormal, "NameserverReachable", "Pods reach their name server")
		return
	}
	const message = "Pods do not reach their name server: open port 10053 for the network of pods in the firewall of " +
		"this host, or set --pod-dns=never (podDNS); pods that start now get the node's name servers, and those that run " +
		"have to be restarted"
	s.cfg.Log.Warn(message, "err", err)
	s.cfg.Events.Event(nil, v1.EventTypeWarning, "NameserverUnreachable", message+": "+err.Error())
}

// hasAddressIn reports whether a pod has an address in one of the networks.
func hasAddressIn(pod *v1.Pod, networks []netip.Prefix) bool {
	for _, ip := range pod.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		for _, n := range networks {
			if err == nil && n.Contains(a) {
				return true
			}
		}
	}
	return false
}
