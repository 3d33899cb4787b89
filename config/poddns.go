package config

import (
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
)

// PodDNSMode says when the node has a name server for its pods.
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

func (d *PodDNS) addFlags(f *pflag.FlagSet) {
	f.StringVar(&d.mode, "pod-dns", string(PodDNSAuto), "name server that resolves the names of this node's pods and Services for pods with dnsPolicy ClusterFirst: always, never, or auto (with the network that podstead creates for its private containerd)")
	f.StringArrayVar(&d.addresses, "pod-dns-address", nil, "`address` on which that name server listens, with the prefix length of the pod network that it answers, such as 10.88.0.1/16; can be repeated (default: the bridge of the CNI configuration)")
}

// The shortest prefixes of networks that may be answered, in bits: the name server asks others for
// its clients, and must not do that for a part of the Internet.
const (
	minPrefix4 = 8
	minPrefix6 = 32
)

func (d *PodDNS) check() error {
	switch d.Mode = PodDNSMode(d.mode); d.Mode {
	case PodDNSAuto, PodDNSAlways, PodDNSNever:
	default:
		return fmt.Errorf("--pod-dns=%s: must be auto, always or never", d.mode)
	}
	d.Addresses = nil
	for _, text := range d.addresses {
		p, err := netip.ParsePrefix(text)
		a := p.Addr()
		switch {
		case err != nil:
			return fmt.Errorf("--pod-dns-address: %q is not an address with a prefix length, such as 10.88.0.1/16", text)
		case !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() || a.Is4In6():
			return fmt.Errorf("--pod-dns-address: %s is not an address at which pods can reach this host; use that of their bridge", a)
		case a.Is4() && p.Bits() < minPrefix4, a.Is6() && p.Bits() < minPrefix6:
			return fmt.Errorf("--pod-dns-address: the prefix of %s is too short; must be that of the pod network, at least /%d for IPv4 and /%d for IPv6", text, minPrefix4, minPrefix6)
		}
		d.Addresses = append(d.Addresses, p)
	}
	return nil
}
