package options

import (
	"fmt"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// checkNetwork validates addresses and the domain, and sets the node's addresses.
func (o *Options) checkNetwork() error {
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
