package config

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkNetwork validates addresses and the domain, and sets the node's addresses.
func (o *Options) checkNetwork() (err error) {
	n := &o.Network
	for _, server := range n.ClusterDNS {
		if _, err := netip.ParseAddr(server); err != nil {
			return fmt.Errorf("--cluster-dns (clusterDNS): %q is not an IP address", server)
		}
	}
	if n.ClusterDomain = strings.TrimSuffix(n.ClusterDomain, "."); n.ClusterDomain != "" {
		if msgs := validation.IsDNS1123Subdomain(n.ClusterDomain); len(msgs) > 0 {
			return fmt.Errorf("--cluster-domain (clusterDomain): %q is not a valid domain, such as cluster.local", n.ClusterDomain)
		}
	}
	if n.PodCIDRs, err = parsePodCIDRs(o.podCIDR); err != nil {
		return fmt.Errorf("--pod-cidr (podCIDR): %w", err)
	}
	if o.nodeIP == "" {
		return nil
	}
	for part := range strings.SplitSeq(o.nodeIP, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(part))
		if err != nil || ip.Zone() != "" {
			return fmt.Errorf("--node-ip: %q is not an IP address", part)
		}
		n.NodeIPs = append(n.NodeIPs, ip.Unmap())
	}
	if len(n.NodeIPs) == 1 && n.NodeIPs[0].IsUnspecified() {
		// As with the kubelet, an unspecified address selects the preferred family.
		n.IPv6First, n.NodeIPs = n.NodeIPs[0].Is6(), nil
		return nil
	}
	for _, ip := range n.NodeIPs {
		if !ip.IsGlobalUnicast() {
			return fmt.Errorf("--node-ip: %s is not a global unicast address", ip)
		}
	}
	if len(n.NodeIPs) > 2 || len(n.NodeIPs) == 2 && n.NodeIPs[0].Is6() == n.NodeIPs[1].Is6() {
		return fmt.Errorf("--node-ip=%s: must be one address, or one IPv4 and one IPv6 address", o.nodeIP)
	}
	return nil
}

// maxPodCIDRBits are the prefix lengths of the smallest ranges that the CNI plugin host-local takes.
const (
	maxPodCIDRBits4 = 30
	maxPodCIDRBits6 = 126
)

// maskedPodCIDRs says which ranges are used for those with bits after the prefix. Such a value may have
// been set for years, while it had no effect: the daemon starts with it.
func (o *Options) maskedPodCIDRs() (notices []string) {
	for part := range strings.SplitSeq(o.podCIDR, ",") {
		if r, err := netip.ParsePrefix(strings.TrimSpace(part)); err == nil && r != r.Masked() {
			notices = append(notices, fmt.Sprintf("--pod-cidr (podCIDR): %s is an address in the range %s, which is used", r, r.Masked()))
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
			return nil, fmt.Errorf("%s is too small; use a prefix length of at most %d for IPv4 and %d for IPv6", r, maxPodCIDRBits4, maxPodCIDRBits6)
		case r.Bits() == 0 || !r.Addr().IsGlobalUnicast():
			return nil, fmt.Errorf("%s has no addresses for pods; use a private range, such as 10.100.0.0/16 or fd00:100::/64", r)
		}
		ranges = append(ranges, r.Masked())
	}
	if len(ranges) > 2 || len(ranges) == 2 && ranges[0].Addr().Is6() == ranges[1].Addr().Is6() {
		return nil, fmt.Errorf("%s: must be one range, or one of IPv4 and one of IPv6", text)
	}
	return ranges, nil
}
