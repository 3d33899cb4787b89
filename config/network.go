package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

func (o *Options) networkSettings() []setting {
	n := &o.Network
	return slices.Concat([]setting{
		{flag: "cni-conf-dir", own: "cniConfDir", value: file(&o.Runtime.CNIConfDir, "/etc/cni/net.d"),
			help: "`directory` of CNI configurations for a private containerd; if it has none, a network is created"},
		{
			flag: "pod-cidr", field: "podCIDR", value: text(&o.podCIDR, ""),
			check: func(s *setting) {
				var err error
				if n.PodCIDRs, err = parsePodCIDRs(o.podCIDR); err != nil {
					s.table.failAt(both{s}, ": %w", err)
				}
			},
			help: "address `range` of pods in the network that is created for a private containerd, or one of IPv4 and one of " +
				"IPv6 separated by a comma (default: a free one from 10.88.0.0/16 to 10.119.0.0/16)",
		},
		{flag: "node-ip", own: "nodeIP", value: text(&o.nodeIP, ""), check: o.checkNodeIP,
			help: "`address` of the node, or one IPv4 and one IPv6 address separated by a comma, the primary one first; :: " +
				"prefers IPv6 (default: the address of the default route)"},
		{
			flag: "cluster-dns", field: "clusterDNS", value: texts(&n.ClusterDNS),
			check: func(s *setting) {
				for _, server := range n.ClusterDNS {
					if _, err := netip.ParseAddr(server); err != nil {
						s.table.failAt(both{s}, ": %q is not an IP address", server)
					}
				}
			},
			help: "`addresses` of the DNS servers for pods with dnsPolicy ClusterFirst (default: the host's)",
		},
		{
			flag: "cluster-domain", field: "clusterDomain", value: text(&n.ClusterDomain, ""),
			check: func(s *setting) {
				if n.ClusterDomain = strings.TrimSuffix(n.ClusterDomain, "."); n.ClusterDomain != "" &&
					len(validation.IsDNS1123Subdomain(n.ClusterDomain)) > 0 {
					s.table.failAt(both{s}, ": %q is not a valid domain, such as cluster.local", n.ClusterDomain)
				}
			},
			help: "DNS `domain` of services, and of pods with a subdomain",
		},
		{
			flag: "resolv-conf", field: "resolvConf", value: file(&n.ResolvConf, DefaultResolvConf).reading(func(doc node) bool {
				path, ok := doc.text()
				n.ResolvConf = pathIn(doc.dir(), path)
				return ok // an empty path means no file
			}),
			shown: func(RuntimeDefaults) any { return n.ResolvConf },
			help:  "resolver configuration `file` for the DNS of pods; empty for none",
		},
	}, o.PodDNS.settings())
}

// checkNodeIP sets the node's addresses.
func (o *Options) checkNodeIP(s *setting) {
	n := &o.Network
	if o.nodeIP == "" {
		return
	}
	for part := range strings.SplitSeq(o.nodeIP, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil || ip.Zone() != "" {
			s.fail(": %q is not an IP address", part)
			return
		}
		n.NodeIPs = append(n.NodeIPs, ip.Unmap())
	}
	if len(n.NodeIPs) == 1 && n.NodeIPs[0].IsUnspecified() {
		// As with the kubelet, an unspecified address selects the preferred family.
		n.IPv6First, n.NodeIPs = n.NodeIPs[0].Is6(), nil
		return
	}
	for _, ip := range n.NodeIPs {
		if !ip.IsGlobalUnicast() {
			s.fail(": %s is not a global unicast address", ip)
			return
		}
	}
	if len(n.NodeIPs) > 2 || len(n.NodeIPs) == 2 && n.NodeIPs[0].Is6() == n.NodeIPs[1].Is6() {
		s.fail("=%s: must be one address, or one IPv4 and one IPv6 address", o.nodeIP)
	}
}

// maxPodCIDRBits are the prefix lengths of the smallest ranges that the CNI plugin host-local takes.
const (
	maxPodCIDRBits4 = 30
	maxPodCIDRBits6 = 126
)

// maskedPodCIDRs reports which ranges are used for those with bits after the prefix. Such a value may have
// been set for years, while it had no effect: the daemon starts with it.
func (o *Options) maskedPodCIDRs() (notices []string) {
	for part := range strings.SplitSeq(o.podCIDR, ",") {
		if r, err := netip.ParsePrefix(strings.TrimSpace(part)); err == nil && r != r.Masked() {
			notices = append(notices, fmt.Sprintf("--pod-cidr (podCIDR): %s is an address in the range %s, which is used", r,
				r.Masked()))
		}
	}
	return notices
}

// parsePodCIDRs returns the ranges of a text such as 10.100.0.0/16,fd00:100::/64.
func parsePodCIDRs(text string) (ranges []netip.Prefix, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		r, err := netip.ParsePrefix(part)
		switch {
		case err != nil || r.Addr().Is4In6():
			return nil, fmt.Errorf("%q is not an address range, such as 10.100.0.0/16 or fd00:100::/64", part)
		case r.Addr().Is4() && r.Bits() > maxPodCIDRBits4 || r.Addr().Is6() && r.Bits() > maxPodCIDRBits6:
			return nil, fmt.Errorf("%s is too small; use a prefix length of at most %d for IPv4 and %d for IPv6", r,
				maxPodCIDRBits4, maxPodCIDRBits6)
		case r.Bits() == 0 || !r.Addr().IsGlobalUnicast():
			return nil, fmt.Errorf("%s has no addresses for pods; use a private range, such as 10.100.0.0/16 or "+
				"fd00:100::/64", r)
		}
		ranges = append(ranges, r.Masked())
	}
	if len(ranges) > 2 || len(ranges) == 2 && ranges[0].Addr().Is6() == ranges[1].Addr().Is6() {
		return nil, fmt.Errorf("%s: must be one range, or one of IPv4 and one of IPv6", text)
	}
	return ranges, nil
}
