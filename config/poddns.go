package config

import "net/netip"

// PodDNSMode reports when the node has a name server for its pods.
type PodDNSMode string

// The modes: with the network that podstead creates for its private containerd, always, never.
const (
	PodDNSAuto   PodDNSMode = "auto"
	PodDNSAlways PodDNSMode = "always"
	PodDNSNever  PodDNSMode = "never"
)

// PodDNS are the settings of the name server for pods.
type PodDNS struct {
	Mode PodDNSMode
	// Addresses are the host's in the networks of pods, each with the network's prefix length;
	// empty for those of the CNI config.
	Addresses []netip.Prefix

	mode      string
	addresses []string
}

func (d *PodDNS) settings() []setting {
	return []setting{
		{
			flag: "pod-dns", own: "podDNS",
			value: choice(&d.mode, string(PodDNSAuto), "=%s: must be auto, always or never", string(PodDNSAuto),
				string(PodDNSAlways), string(PodDNSNever)),
			check: func(*setting) { d.Mode = PodDNSMode(d.mode) },
			help: "name server that resolves the names of this node's pods and Services for pods with dnsPolicy " +
				"ClusterFirst: always, never, or auto (with the network that podstead creates for its private containerd)",
		},
		{flag: "pod-dns-address", own: "podDNSAddresses", value: list(&d.addresses), check: d.checkAddresses,
			help: "`address` on which that name server listens, with the prefix length of the pod network that it answers, " +
				"such as 10.88.0.1/16; can be repeated (default: the bridge of the CNI configuration)"},
	}
}

// The shortest prefixes of networks that may be served, in bits: the name server asks others for
// its clients, and must not do that for a part of the Internet.
const (
	minPrefix4 = 8
	minPrefix6 = 32
)

func (d *PodDNS) checkAddresses(s *setting) {
	d.Addresses = nil
	for _, text := range d.addresses {
		p, err := netip.ParsePrefix(text)
		a := p.Addr()
		switch {
		case err != nil:
			s.fail(": %q is not an address with a prefix length, such as 10.88.0.1/16", text)
		case !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() || a.Is4In6():
			s.fail(": %s is not an address at which pods can reach this host; use that of their bridge", a)
		case a.Is4() && p.Bits() < minPrefix4, a.Is6() && p.Bits() < minPrefix6:
			s.fail(": the prefix of %s is too short; must be that of the pod network, at least /%d for IPv4 and /%d for "+
				"IPv6", text, minPrefix4, minPrefix6)
		default:
			d.Addresses = append(d.Addresses, p)
		}
	}
}
