package addresses

import (
	"encoding/binary"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// message is one of netlink's: a head and attributes.
func message(kind uint16, head []byte, attrs ...[]byte) *syscall.NetlinkMessage {
	m := &syscall.NetlinkMessage{Header: syscall.NlMsghdr{Type: kind}, Data: head}
	for _, a := range attrs {
		m.Data = append(m.Data, a...)
	}
	return m
}

func attr(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func u32(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }

func addressHead(family, scope, flags byte, iface uint32) []byte {
	return append([]byte{family, 24, flags, scope}, u32(iface)...)
}

func TestParseAddress(t *testing.T) {
	const v4, v6 = unix.AF_INET, unix.AF_INET6
	ten, six := []byte{10, 0, 0, 2}, net.ParseIP("2001:db8::2")
	for name, c := range map[string]struct {
		head  []byte
		attrs [][]byte
		want  string
	}{
		"IPv4": {addressHead(v4, 0, unix.IFA_F_PERMANENT, 3),
			[][]byte{attr(unix.IFA_ADDRESS, ten), attr(unix.IFA_LOCAL, ten)}, "10.0.0.2 3 false true"},
		"point to point": {addressHead(v4, 0, 0, 3),
			[][]byte{attr(unix.IFA_ADDRESS, []byte{10, 0, 0, 1}), attr(unix.IFA_LOCAL, ten)}, "10.0.0.2 3 false true"},
		"IPv6": {addressHead(v6, 0, 0, 3), [][]byte{attr(unix.IFA_ADDRESS, six)}, "2001:db8::2 3 false true"},
		"temporary": {addressHead(v6, 0, 0, 3),
			[][]byte{attr(unix.IFA_ADDRESS, six), attr(unix.IFA_FLAGS, u32(unix.IFA_F_TEMPORARY|unix.IFA_F_MANAGETEMPADDR))},
			"2001:db8::2 3 true true"},
		"tentative": {addressHead(v6, 0, unix.IFA_F_TENTATIVE, 3), [][]byte{attr(unix.IFA_ADDRESS, six)},
			"invalid IP 0 false false"},
		"of the link alone": {addressHead(v6, unix.RT_SCOPE_LINK, 0, 3),
			[][]byte{attr(unix.IFA_ADDRESS, net.ParseIP("fe80::1"))}, "invalid IP 0 false false"},
		"loopback": {addressHead(v4, unix.RT_SCOPE_HOST, 0, 1), [][]byte{attr(unix.IFA_LOCAL, []byte{127, 0, 0, 1})},
			"invalid IP 0 false false"},
		"cut short": {[]byte{v4, 24}, nil, "invalid IP 0 false false"},
	} {
		a, ok := parseAddress(message(unix.RTM_NEWADDR, c.head, c.attrs...))
		if got := fmt.Sprint(a.ip, a.iface, a.secondary, ok); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func routeHead(family, length, table, kind byte) []byte {
	return append([]byte{family, length, 0, 0, table, 0, 0, kind}, u32(0)...)
}

func TestParseDefault(t *testing.T) {
	const v4, v6, table, unicast = unix.AF_INET, unix.AF_INET6, unix.RT_TABLE_MAIN, unix.RTN_UNICAST
	hop := func(iface uint32, flags byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtNexthop+8))
		return append(append(append(b, flags, 0), u32(iface)...), attr(unix.RTA_GATEWAY, []byte{10, 0, 0, 1})...)
	}
	oif := attr(unix.RTA_OIF, u32(3))
	for name, c := range map[string]struct {
		head  []byte
		attrs [][]byte
		want  string
	}{
		"default": {routeHead(v4, 0, table, unicast), [][]byte{oif, attr(unix.RTA_PRIORITY, u32(100))},
			"false 3 100 invalid IP\n"},
		"IPv6": {routeHead(v6, 0, table, unicast), [][]byte{oif}, "true 3 0 invalid IP\n"},
		"with a source": {routeHead(v4, 0, table, unicast), [][]byte{oif, attr(unix.RTA_PREFSRC, []byte{10, 0, 0, 9})},
			"false 3 0 10.0.0.9\n"},
		"two hops": {routeHead(v4, 0, table, unicast),
			[][]byte{attr(unix.RTA_MULTIPATH, append(hop(3, 0), append(hop(4, unix.RTNH_F_DEAD), hop(5, 0)...)...))},
			"false 3 0 invalid IP\nfalse 5 0 invalid IP\n"},
		"a network":   {routeHead(v4, 24, table, unicast), [][]byte{oif}, ""},
		"unreachable": {routeHead(v6, 0, table, unix.RTN_UNREACHABLE), [][]byte{oif}, ""},
		"another table": {routeHead(v4, 0, unix.RT_TABLE_COMPAT, unicast), [][]byte{oif, attr(unix.RTA_TABLE, u32(1000))},
			""},
		"a broken length": {routeHead(v4, 0, table, unicast),
			[][]byte{attr(unix.RTA_MULTIPATH, []byte{200, 0, 0, 0, 3, 0, 0, 0})}, ""},
		"cut short": {[]byte{v4, 0, 0}, nil, ""},
	} {
		got := ""
		for _, r := range parseDefault(message(unix.RTM_NEWROUTE, c.head, c.attrs...)) {
			got += fmt.Sprintln(r.v6, r.iface, r.metric, r.source)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What pods do to the network is none of the node's.
func TestMatters(t *testing.T) {
	link := func(iface uint32) []byte { return append(append(make([]byte, 4), u32(iface)...), make([]byte, 8)...) }
	for name, c := range map[string]struct {
		m    *syscall.NetlinkMessage
		want bool
	}{
		"address":           {message(unix.RTM_NEWADDR, addressHead(unix.AF_INET, 0, 0, 3)), true},
		"address gone":      {message(unix.RTM_DELADDR, addressHead(unix.AF_INET6, 0, 0, 3)), true},
		"address of a link": {message(unix.RTM_NEWADDR, addressHead(unix.AF_INET6, unix.RT_SCOPE_LINK, 0, 3)), false},
		"default route": {message(unix.RTM_DELROUTE,
			routeHead(unix.AF_INET, 0, unix.RT_TABLE_MAIN, unix.RTN_UNICAST)), true},
		"route to a pod": {message(unix.RTM_NEWROUTE,
			routeHead(unix.AF_INET, 32, unix.RT_TABLE_MAIN, unix.RTN_UNICAST)), false},
		"link of the node":        {message(unix.RTM_NEWLINK, link(2)), true},
		"link of a pod":           {message(unix.RTM_NEWLINK, link(7)), false},
		"something cut to pieces": {message(unix.RTM_NEWLINK, nil), false},
	} {
		if got := isRelevant(c.m, []int{2}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The kernel's own answer can be read, whatever this machine has.
func TestReadTables(t *testing.T) {
	got, err := readTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range got.addresses {
		iface, err := net.InterfaceByIndex(a.iface)
		if err != nil {
			t.Errorf("%v: %v", a, err)
			continue
		}
		addrs, _ := iface.Addrs()
		found := false
		for _, have := range addrs {
			n, ok := have.(*net.IPNet)
			found = found || ok && n.IP.String() == a.ip.String()
		}
		if !found {
			t.Errorf("%v is not on %s, which has %v", a, iface.Name, addrs)
		}
	}
	for _, r := range got.defaults {
		if _, err := net.InterfaceByIndex(r.iface); err != nil {
			t.Errorf("%v: %v", r, err)
		}
	}
}
