package private

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// networkText is podstead's network with these ranges.
func networkText(ranges []netip.Prefix) []byte {
	var subnets, routes []string
	for _, r := range ranges {
		subnets = append(subnets, fmt.Sprintf(`[{"subnet": %q}]`, r))
		route := "0.0.0.0/0"
		if r.Addr().Is6() {
			route = "::/0"
		}
		routes = append(routes, fmt.Sprintf(`{"dst": %q}`, route))
	}
	return fmt.Appendf(nil, networkConfig, bridge, strings.Join(subnets, ", "), strings.Join(routes, ", "))
}

// rangesOf returns the ranges of a network that podstead has written, and false for a text that
// was changed otherwise.
func rangesOf(text []byte) ([]netip.Prefix, bool) {
	var network struct {
		Plugins []cniNetwork `json:"plugins"`
	}
	if err := json.Unmarshal(text, &network); err != nil || len(network.Plugins) == 0 {
		return nil, false
	}
	var ranges []netip.Prefix
	for _, set := range network.Plugins[0].IPAM.Ranges {
		for _, r := range set {
			p, err := netip.ParsePrefix(r.Subnet)
			if err != nil {
				return nil, false
			}
			ranges = append(ranges, p)
		}
	}
	return ranges, bytes.Equal(withBandwidth(text, false), networkText(ranges))
}

// newRanges returns the ranges of a network that is created.
func (c Config) newRanges() ([]netip.Prefix, error) {
	if len(c.PodCIDRs) > 0 {
		return c.PodCIDRs, checkRanges(c.PodCIDRs)
	}
	subnet, err := chooseSubnet()
	if err != nil {
		return nil, err
	}
	p, err := netip.ParsePrefix(subnet)
	return []netip.Prefix{p}, err
}

// updateRanges gives podstead's network the ranges of PodCIDRs, if its bridge takes them: an address
// family is added at any time, and an IPv4 range replaced while no bridge exists, which is after a
// reboot. The error reports why the network stays as it was. Running pods keep their addresses.
func (c Config) updateRanges(dir string) error {
	if len(c.PodCIDRs) == 0 {
		return nil
	}
	if dir == c.CNIConfDir {
		return fmt.Errorf("the network in %s is used, and has its own ranges; change them there, or remove the setting", dir)
	}
	file := filepath.Join(dir, networkFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%s has another network: %w", dir, err)
	}
	ranges, own := rangesOf(text)
	switch {
	case slices.Equal(ranges, c.PodCIDRs):
		return nil
	case !own:
		return fmt.Errorf("%s was changed by another program; change the ranges there, or remove it", file)
	}
	if err := checkRanges(c.PodCIDRs); err != nil {
		return err
	}
	now := networkText(c.PodCIDRs)
	if bytes.Contains(text, []byte(bandwidthPlugin)) {
		now = withBandwidth(now, true)
	}
	err = c.replaceFile(file, now, 0o644)
	c.Disk.Unwritten.Report(file, err)
	return err
}

// checkRanges returns an error for ranges that a bridge on this host cannot have.
func checkRanges(ranges []netip.Prefix) error {
	if slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Addr().Is6() }) {
		if off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6"); err != nil ||
			strings.TrimSpace(string(off)) != "0" {
			return errors.New("IPv6 is disabled on this host (net.ipv6.conf.all.disable_ipv6); enable it, or remove the IPv6 " +
				"range")
		}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("failed to list the host's network interfaces: %w", err)
	}
	for i := range interfaces {
		addrs, err := interfaces[i].Addrs()
		if err != nil {
			return fmt.Errorf("failed to list the addresses of %s: %w", interfaces[i].Name, err)
		}
		if err := conflicts(ranges, interfaces[i].Name, addrs); err != nil {
			return err
		}
	}
	return nil
}

// conflicts returns an error for a range that overlaps an address of an interface, unless it is the
// one that the bridge has for it. The bridge has one IPv4 address only.
func conflicts(ranges []netip.Prefix, name string, addrs []net.Addr) error {
	for _, r := range ranges {
		gateway, err := cniRange{Subnet: r.String()}.gateway()
		if err != nil {
			return err
		}
		for _, a := range addrs {
			address, err := netip.ParsePrefix(a.String())
			if err != nil || address.Addr().Is6() != r.Addr().Is6() {
				continue
			}
			switch {
			case name != bridge && r.Overlaps(address):
				return fmt.Errorf("%s overlaps the address %s of %s; use another range", r, address, name)
			case name == bridge && address != gateway && (address.Addr().Is4() || r.Overlaps(address)):
				return fmt.Errorf("the bridge %s has the address %s, which pods that run depend on; the range %s is used after a "+
					"reboot, or once all pods are stopped, and \"ip link delete %s\" and a restart of podstead",
					bridge, address, r, bridge)
			}
		}
	}
	return nil
}
