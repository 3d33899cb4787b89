package firewall

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"sync"
)

// DNSChain is the chain of the tables filter and nat with the rules for the name server of pods.
const DNSChain = "PODSTEAD-DNS"

// DNSPort is the port at which pods ask.
const DNSPort = 53

// PodDNS leads the queries of pods to the name server of this node. That listens on a port of its
// own: with port 53 it would keep other name servers of the host, which listen on all addresses,
// from starting. Its methods may be called concurrently.
type PodDNS struct {
	cfg PodDNSConfig
	mu  sync.Mutex
}

// PodDNSConfig configures a PodDNS.
type PodDNSConfig struct {
	// Addresses are the host's in the networks of pods, with the prefix length of the network.
	Addresses []netip.Prefix
	// Loopback is the address for pods on the host's network; the zero Addr for none.
	Loopback netip.Addr
	// Port is the one on which the name server listens.
	Port uint16
	// Four and Six run iptables and ip6tables; nil runs the programs of the host.
	Four, Six Iptables
}

// NewPodDNS returns a PodDNS.
func NewPodDNS(cfg PodDNSConfig) *PodDNS {
	if cfg.Four == nil {
		cfg.Four = program("iptables")
	}
	if cfg.Six == nil {
		cfg.Six = program("ip6tables")
	}
	return &PodDNS{cfg: cfg}
}

// Ensure installs what is missing of the rules. If all is there, it changes nothing.
func (d *PodDNS) Ensure(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, six := range []bool{false, true} {
		iptables := d.cfg.Four
		if six {
			iptables = d.cfg.Six
		}
		for _, table := range []struct {
			name, hook string
			rules      [][]string
		}{{"filter", "INPUT", d.accept(six)}, {"nat", "PREROUTING", d.redirect(six)}, {"nat", "OUTPUT", d.redirect(six)}} {
			if len(table.rules) == 0 {
				continue
			}
			call := func(ctx context.Context, command string, rule ...string) error {
				return iptables(ctx, append([]string{"-w", "5", "-t", table.name, command}, rule...)...)
			}
			errs = append(errs, ensureChain(ctx, call, DNSChain, table.rules, []string{table.hook, "-j", DNSChain}))
		}
	}
	return errors.Join(errs...)
}

// accept returns the rules that open the port of the name server to pods.
func (d *PodDNS) accept(six bool) (rules [][]string) {
	for _, a := range d.cfg.Addresses {
		if a.Addr().Is6() == six {
			rules = append(rules, forBoth([]string{DNSChain, "-s", a.Masked().String(), "-d", host(a.Addr())}, d.cfg.Port,
				"ACCEPT")...)
		}
	}
	return rules
}

// redirect returns the rules that lead queries from DNSPort to the name server. Since they come
// first, they also keep a pod with the host port 53 from getting the queries of other pods.
func (d *PodDNS) redirect(six bool) (rules [][]string) {
	to := func(a netip.Addr) []string {
		return []string{"DNAT", "--to-destination", netip.AddrPortFrom(a, d.cfg.Port).String()}
	}
	for _, a := range d.cfg.Addresses {
		if a.Addr().Is6() == six {
			rules = append(rules, forBoth([]string{DNSChain, "-s", a.Masked().String(), "-d", host(a.Addr())}, DNSPort,
				to(a.Addr())...)...)
		}
	}
	if a := d.cfg.Loopback; a.IsValid() && a.Is6() == six {
		rules = append(rules, forBoth([]string{DNSChain, "-d", host(a)}, DNSPort, to(a)...)...)
	}
	return rules
}

func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// forBoth returns a rule for UDP and one for TCP.
func forBoth(match []string, port uint16, target ...string) (rules [][]string) {
	for _, protocol := range []string{"udp", "tcp"} {
		rule := append(slices.Clone(match), "-p", protocol, "-m", protocol, "--dport", strconv.Itoa(int(port)), "-j")
		rules = append(rules, append(rule, target...))
	}
	return rules
}
