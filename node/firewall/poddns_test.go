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
	four["nat"].chains = map[string][]string{"PREROUTING": {"-j CNI-HOSTPORT-DNAT"}, "OUTPUT": nil}
	six := map[string]*fakeTable{"filter": newFakeTable(), "nat": newFakeTable()}
	six["nat"].chains = map[string][]string{"PREROUTING": nil, "OUTPUT": nil}
	addresses := []netip.Prefix{netip.MustParsePrefix("10.88.0.1/16"), netip.MustParsePrefix("fd00::1/64")}
	d := NewPodDNS(PodDNSConfig{Addresses: addresses, Loopback: netip.MustParseAddr("127.88.0.1"), Port: 10053,
		Four: tables(four), Six: tables(six)})
	for range 2 {
		if err := d.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	both := func(rule string) []string { return []string{rule, strings.ReplaceAll(rule, "udp", "tcp")} }
	for table, want := range map[string][]string{
		"filter": both("-s 10.88.0.0/16 -d 10.88.0.1/32 -p udp -m udp --dport 10053 -j ACCEPT"),
		"nat": append(
			both("-s 10.88.0.0/16 -d 10.88.0.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 10.88.0.1:10053"),
			both("-d 127.88.0.1/32 -p udp -m udp --dport 53 -j DNAT --to-destination 127.88.0.1:10053")...),
	} {
		f := four[table]
		if got := f.chains[DNSChain]; !slices.Equal(got, want) {
			t.Errorf("%s: the rules are %q", table, got)
		}
		for _, hook := range map[string][]string{"filter": {"INPUT"}, "nat": {"PREROUTING", "OUTPUT"}}[table] {
			if f.chains[hook][0] != "-j "+DNSChain {
				t.Errorf("%s: %s is %q", table, hook, f.chains[hook])
			}
		}
		if changes := map[string]int{"filter": 4, "nat": 7}[table]; len(f.changes) != changes {
			t.Errorf("%s: the changes are %q", table, f.changes)
		}
		if got := six[table].chains[DNSChain]; len(got) != 2 || !strings.HasPrefix(got[0], "-s fd00::/64 -d fd00::1/128 ") {
			t.Errorf("%s: the rules for IPv6 are %q", table, got)
		}
	}
	if got := six["nat"].chains[DNSChain][0]; !strings.HasSuffix(got, "--to-destination [fd00::1]:10053") {
		t.Errorf("the rule for IPv6 is %q", got)
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
