package docker

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxPorts bounds the ports of a range.
const maxPorts = 1000

// Port is one published port.
type Port struct {
	// HostIP is an address of the host; empty for all.
	HostIP string
	// Host is the port of the host, 0 if the runtime chooses one; Container is the container's.
	Host, Container int32
	// Protocol is tcp, udp or sctp.
	Protocol string
}

// ParsePorts parses [[IP:]HOST:]CONTAINER[/PROTOCOL], where ports may be ranges. chosen reports
// that the runtime would choose the port of the host from a range.
func ParsePorts(text string) (ports []Port, chosen bool, err error) {
	rest, protocol, _ := strings.Cut(strings.TrimSpace(text), "/")
	if protocol = strings.ToLower(protocol); protocol == "" {
		protocol = "tcp"
	}
	if protocol != "tcp" && protocol != "udp" && protocol != "sctp" {
		return nil, false, fmt.Errorf("the protocol is %q; must be tcp, udp or sctp", protocol)
	}
	container, before := rest, ""
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		before, container = rest[:i], rest[i+1:]
	}
	host, ip := before, ""
	if i := strings.LastIndexByte(before, ':'); i >= 0 {
		ip, host = strings.Trim(before[:i], "[]"), before[i+1:]
	}
	if ip != "" {
		if _, err := netip.ParseAddr(ip); err != nil {
			return nil, false, fmt.Errorf("%q is not an IP address", ip)
		}
	}
	return Range(ip, host, container, protocol)
}

// Range returns the ports of a range of ports of the host, which may be empty, and one of the
// container.
func Range(ip, host, container, protocol string) (ports []Port, chosen bool, err error) {
	first, last, err := parseRange(container)
	if err != nil {
		return nil, false, err
	}
	var hostFirst, hostLast int32
	if host != "" && host != "0" {
		if hostFirst, hostLast, err = parseRange(host); err != nil {
			return nil, false, err
		}
		if chosen = first == last && hostFirst != hostLast; !chosen && hostLast-hostFirst != last-first {
			return nil, false, fmt.Errorf("the ranges %s and %s have different lengths", host, container)
		}
	}
	for p := first; p <= last; p++ {
		port := Port{HostIP: ip, Container: p, Protocol: protocol}
		if hostFirst > 0 {
			port.Host = hostFirst + p - first
		}
		ports = append(ports, port)
	}
	return ports, chosen, nil
}

func parseRange(text string) (first, last int32, err error) {
	low, high, isRange := strings.Cut(text, "-")
	if !isRange {
		high = low
	}
	from, errFrom := strconv.ParseUint(low, 10, 16)
	to, errTo := strconv.ParseUint(high, 10, 16)
	switch {
	case errFrom != nil || errTo != nil || from == 0 || to < from:
		return 0, 0, fmt.Errorf("%q is not a port; must be a number from 1 to 65535, or a range such as 8000-8010", text)
	case to-from >= maxPorts:
		return 0, 0, fmt.Errorf("%q has more than %d ports", text, maxPorts)
	}
	return int32(from), int32(to), nil
}
