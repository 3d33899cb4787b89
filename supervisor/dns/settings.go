package dns

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Files of a host.
const (
	defaultHosts = "/etc/hosts"
	// upstreamResolvConf has the upstream servers of systemd-resolved's stub.
	upstreamResolvConf = "/run/systemd/resolve/resolv.conf"
)

// Settings are the DNS settings of the node. The zero value gives pods no name server.
type Settings struct {
	// ResolvConf is the path of the host's file; empty is none, and so is a missing
	// file, as for the C library.
	ResolvConf string
	// ClusterDNS are the name servers of pods with policy ClusterFirst; if empty,
	// these pods get the host's.
	ClusterDNS []string
	// ClusterDomain is the suffix of the names of services and of pods with a
	// subdomain; may be empty.
	ClusterDomain string
	// Nameserver resolves the names of this node's pods; nil if there is none. Static
	// pods with policy ClusterFirst get it, unless ClusterDNS is set.
	Nameserver Nameserver
	// Hosts is the path of the host's hosts file; empty is /etc/hosts.
	Hosts string
	// Upstream replaces ResolvConf if that names only systemd-resolved's stub; empty
	// is systemd's own file.
	Upstream string
}

// Nameserver is the name server of this node for its pods.
type Nameserver interface {
	// Addresses returns where pods reach it, those on the host's network or the others. An
	// error reports why it cannot be reached at present.
	Addresses(hostNetwork bool) ([]string, error)
	// Domain returns the cluster domain of its names.
	Domain() string
}

// Resolver returns the resolv.conf of a pod, by its dnsPolicy and dnsConfig. Entries
// beyond the limits of the C library are omitted; omitted has one sentence about each.
// It is an error if a file of the host cannot be read.
func (s Settings) Resolver(pod *v1.Pod) (resolver cri.DNS, omitted []string, err error) {
	cluster := s.usesCluster(pod)
	servers, domain := s.ClusterDNS, s.ClusterDomain
	var unreachable error
	if s.usesNameserver(pod) {
		servers, unreachable = s.Nameserver.Addresses(pod.Spec.HostNetwork)
		domain, cluster = s.Nameserver.Domain(), unreachable == nil
	}
	if pod.Spec.DNSPolicy != v1.DNSNone {
		if resolver, err = s.hostResolver(pod.Spec.HostNetwork); err != nil {
			return cri.DNS{}, nil, err
		}
	}
	if cluster {
		resolver = cri.DNS{
			Servers:  slices.Clone(servers),
			Searches: union(clusterSearches(pod.Namespace, domain), resolver.Searches),
			Options:  []string{"ndots:5"},
		}
	}
	if own := pod.Spec.DNSConfig; own != nil {
		resolver.Servers = union(resolver.Servers, own.Nameservers)
		resolver.Searches = union(resolver.Searches, own.Searches)
		resolver.Options = mergeOptions(resolver.Options, own.Options)
	}
	resolver, omitted = applyLimits(resolver)
	if !cluster && !pod.Spec.HostNetwork && len(resolver.Servers) > 0 &&
		!slices.ContainsFunc(resolver.Servers, func(ip string) bool { return !isLoopback(ip) }) {
		omitted = append(omitted, fmt.Sprintf("every nameserver (%s) is a loopback address, which in the pod's network is "+
			"the pod itself; set --resolv-conf, --cluster-dns or the pod's dnsConfig",
			strings.Join(resolver.Servers, " ")))
	}
	if unreachable != nil {
		omitted = append(omitted, fmt.Sprintf("the pod has the node's name servers and does not resolve the names of other "+
			"pods, because the name server of this node is not available: %v; restart the pod once it is", unreachable))
	}
	if len(resolver.Servers)+len(resolver.Searches)+len(resolver.Options) == 0 {
		// Without any settings, runtimes copy the host's file, or fail if there is none.
		resolver.Searches = []string{"."}
	}
	return resolver, omitted, nil
}

// Missing reports whether a pod gets its name servers from the host, and the host has none that
// the pod can reach: it has not been configured yet, or systemd-resolved knows no server.
func (s Settings) Missing(pod *v1.Pod) bool {
	if s.ResolvConf == "" || pod.Spec.DNSPolicy == v1.DNSNone || s.usesCluster(pod) {
		return false
	}
	if s.usesNameserver(pod) {
		if _, err := s.Nameserver.Addresses(pod.Spec.HostNetwork); err == nil {
			return false // it finds the host's when they are there
		}
	}
	resolver, err := s.hostResolver(pod.Spec.HostNetwork)
	if err != nil {
		return false // which the start of the pod reports
	}
	if pod.Spec.DNSConfig != nil && len(pod.Spec.DNSConfig.Nameservers) > 0 {
		return false
	}
	return len(resolver.Servers) == 0 || !pod.Spec.HostNetwork && stubOnly(resolver.Servers)
}

// usesCluster reports whether the name servers of a pod are those of the cluster.
func (s Settings) usesCluster(pod *v1.Pod) bool {
	return len(s.ClusterDNS) > 0 && isClusterFirst(pod)
}

// usesNameserver reports whether a pod is to get the name server of this node.
func (s Settings) usesNameserver(pod *v1.Pod) bool {
	return s.Nameserver != nil && len(s.ClusterDNS) == 0 && isClusterFirst(pod) && podinfo.PolicyOf(pod).Static
}

func isClusterFirst(pod *v1.Pod) bool {
	policy := pod.Spec.DNSPolicy
	return policy == v1.DNSClusterFirstWithHostNet || policy == v1.DNSClusterFirst && !pod.Spec.HostNetwork
}

// clusterSearches returns the search domains of a cluster domain for a pod's short names.
func clusterSearches(namespace, domain string) []string {
	if domain == "" {
		return nil
	}
	return []string{namespace + ".svc." + domain, "svc." + domain, domain}
}

// hostResolver returns the host's own settings. systemd-resolved's stub responds only on
// the host's loopback, so a pod with its own network gets the upstream servers.
func (s Settings) hostResolver(hostNetwork bool) (cri.DNS, error) {
	if s.ResolvConf == "" {
		return cri.DNS{Servers: []string{"127.0.0.1"}, Searches: []string{"."}}, nil
	}
	resolver, err := readResolvConf(s.ResolvConf)
	if err != nil || hostNetwork || !stubOnly(resolver.Servers) {
		return resolver, err
	}
	upstream := s.Upstream
	if upstream == "" {
		upstream = upstreamResolvConf
	}
	behind, err := readResolvConf(upstream)
	if err != nil || len(behind.Servers) == 0 {
		return resolver, err
	}
	return behind, nil
}

func readResolvConf(path string) (cri.DNS, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cri.DNS{}, nil
	}
	if err != nil {
		return cri.DNS{}, fmt.Errorf("failed to read the host's name servers: %w", err)
	}
	return parseResolvConf(string(data)), nil
}

// stubOnly reports whether all servers are systemd-resolved's stub.
func stubOnly(servers []string) bool {
	return len(servers) > 0 && !slices.ContainsFunc(servers,
		func(ip string) bool { return ip != "127.0.0.53" && ip != "127.0.0.54" })
}

func isLoopback(server string) bool {
	ip, err := netip.ParseAddr(server)
	return err == nil && ip.Unmap().IsLoopback()
}
