package firewall

import (
	"context"
	"errors"
	"net/netip"
	"strconv"
	"sync"
)

// DNSChain is the chain of the tables filter and nat with the rules for the name server of pods.
const DNSChain = "PODSTEAD-DNS"

// RemoveDNS is the shell command that removes the rules for IPv4 and their chains.
const RemoveDNS = "for t in 'filter INPUT' 'nat PREROUTING'; do set -- $t; iptables -t $1 -D $2 -j " + DNSChain +
	"; iptables -t $1 -F " + DNSChain + "; iptables -t $1 -X " + DNSChain + "; done"

// PodDNS lets pods reach the name server of this node. Its methods may be called concurrently.
type PodDNS struct {
	four, six Iptables
	// addresses are the host's in the networks of pods, with the prefix length of the network.
	addresses []netip.Prefix
	port      uint16
	mu        sync.Mutex
}

// NewPodDNS returns a PodDNS. nil runs the programs of the host.
func NewPodDNS(addresses []netip.Prefix, port uint16, four, six Iptables) *PodDNS {
	if four == nil {
		four = program("iptables")
	}
	if six == nil {
		six = program("ip6tables")
	}
	return &PodDNS{four: four, six: six, addresses: addresses, port: port}
}

// Ensure installs what is missing of the rules. If all is there, it changes nothing.
func (d *PodDNS) Ensure(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var errs []error
	for _, table := range []struct{ name, hook string }{{"filter", "INPUT"}, {"nat", "PREROUTING"}} {
		for _, six := range []bool{false, true} {
			rules := d.rules(six)
			if len(rules) == 0 {
				continue
			}
			iptables := d.four
			if six {
				iptables = d.six
			}
			call := func(ctx context.Context, command string, rule ...string) error {
				return iptables(ctx, append([]string{"-w", "5", "-t", table.name, command}, rule...)...)
			}
			errs = append(errs, ensureChain(ctx, call, DNSChain, rules, []string{table.hook, "-j", DNSChain}))
		}
	}
	return errors.Join(errs...)
}

// rules returns those of one family, which are the same in both tables: in filter they accept the
// queries of pods, in nat they keep host ports from redirecting them.
func (d *PodDNS) rules(six bool) (rules [][]string) {
	for _, a := range d.addresses {
		if a.Addr().Is6() != six {
			continue
		}
		for _, protocol := range []string{"udp", "tcp"} {
			rules = append(rules, []string{DNSChain, "-s", a.Masked().String(), "-d", netip.PrefixFrom(a.Addr(), a.Addr().BitLen()).String(),
				"-p", protocol, "-m", protocol, "--dport", strconv.Itoa(int(d.port)), "-j", "ACCEPT"})
		}
	}
	return rules
}
