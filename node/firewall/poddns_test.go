package firewall

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// tables returns an Iptables over a fake of each table.
func tables(fakes map[string]*fakeTable) Iptables {
	return func(ctx context.Context, args ...string) error {
		if len(args) < 6 || args[2] != "-t" || fakes[args[3]] == nil {
			return errors.New("no such table")
		}
		return fakes[args[3]].run(ctx, append(slices.Clone(args[:2]), args[4:]...)...)
	}
}

func TestPodDNSRules(t *testing.T) {
	four := map[string]*fakeTable{"filter": newFakeTable(), "nat": newFakeTable()}
	four["nat"].chains = map[string][]string{"PREROUTING": {"-j CNI-HOSTPORT-DNAT"}}
	six := map[string]*fakeTable{"filter": newFakeTable(), "nat": newFakeTable()}
	six["nat"].chains = map[string][]string{"PREROUTING": nil}
	addresses := []netip.Prefix{netip.MustParsePrefix("10.88.0.1/16"), netip.MustParsePrefix("fd00::1/64")}
	d := NewPodDNS(addresses, 53, tables(four), tables(six))
	for range 2 {
		if err := d.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rule := "-s 10.88.0.0/16 -d 10.88.0.1/32 -p udp -m udp --dport 53 -j ACCEPT"
	for _, table := range []string{"filter", "nat"} {
		hook := map[string]string{"filter": "INPUT", "nat": "PREROUTING"}[table]
		f := four[table]
		if got := f.chains[DNSChain]; len(got) != 2 || got[0] != rule || got[1] != strings.ReplaceAll(rule, "udp", "tcp") {
			t.Errorf("%s: the rules are %q", table, got)
		}
		if f.chains[hook][0] != "-j "+DNSChain || len(f.changes) != 4 {
			t.Errorf("%s: %q after %q", table, f.chains[hook], f.changes)
		}
		if got := six[table].chains[DNSChain]; len(got) != 2 || !strings.HasPrefix(got[0], "-s fd00::/64 -d fd00::1/128 ") {
			t.Errorf("%s: the rules for IPv6 are %q", table, got)
		}
	}
	// What a reload of the host's firewall removes is installed again.
	four["filter"].chains["INPUT"] = []string{"-j DROP"}
	if err := d.Ensure(t.Context()); err != nil || four["filter"].chains["INPUT"][0] != "-j "+DNSChain {
		t.Errorf("%q (%v)", four["filter"].chains["INPUT"], err)
	}
	four["nat"].chains, four["nat"].readOnly = map[string][]string{}, true
	if err := d.Ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("error %v", err)
	}
}
