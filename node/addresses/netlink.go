package addresses

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// readTables reads the tables from the kernel.
func readTables() (tables, error) {
	var t tables
	for _, ask := range []int{unix.RTM_GETADDR, unix.RTM_GETROUTE} {
		data, err := syscall.NetlinkRIB(ask, unix.AF_UNSPEC)
		if err != nil {
			return t, err
		}
		messages, err := syscall.ParseNetlinkMessage(data)
		if err != nil {
			return t, err
		}
		for i := range messages {
			switch messages[i].Header.Type {
			case unix.RTM_NEWADDR:
				if a, ok := parseAddress(&messages[i]); ok {
					t.addresses = append(t.addresses, a)
				}
			case unix.RTM_NEWROUTE:
				t.defaults = append(t.defaults, parseDefault(&messages[i])...)
			}
		}
	}
	return t, nil
}

// attributes returns the attributes of a message by type.
func attributes(m *syscall.NetlinkMessage) map[uint16][]byte {
	list, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return nil
	}
	all := make(map[uint16][]byte, len(list))
	for _, a := range list {
		all[a.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = a.Value
	}
	return all
}

// parseAddress reads a struct ifaddrmsg: family, prefix length, flags and scope in
// a byte each, then the interface. It accepts only addresses that other hosts can
// reach.
func parseAddress(m *syscall.NetlinkMessage) (address, bool) {
	if len(m.Data) < unix.SizeofIfAddrmsg || m.Data[3] != unix.RT_SCOPE_UNIVERSE {
		return address{}, false
	}
	attrs := attributes(m)
	raw := attrs[unix.IFA_LOCAL] // the IPv4 address, also if IFA_ADDRESS is the peer
	if raw == nil {
		raw = attrs[unix.IFA_ADDRESS]
	}
	ip, ok := netip.AddrFromSlice(raw)
	if !ok || ip.IsLoopback() || !ip.IsGlobalUnicast() {
		return address{}, false
	}
	flags := uint32(m.Data[2])
	if f := attrs[unix.IFA_FLAGS]; len(f) == 4 {
		flags = binary.NativeEndian.Uint32(f)
	}
	if flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) != 0 {
		return address{}, false
	}
	return address{
		ip:        ip,
		iface:     int(binary.NativeEndian.Uint32(m.Data[4:8])),
		secondary: flags&(unix.IFA_F_SECONDARY|unix.IFA_F_DEPRECATED) != 0,
	}, true
}

// parseDefault reads a struct rtmsg: family, length of the destination, of the
// source, and others in a byte each, then the flags. A route that is not a default
// route of the main table gives none; a multipath route gives one per hop.
func parseDefault(m *syscall.NetlinkMessage) []route {
	if len(m.Data) < unix.SizeofRtMsg || m.Data[1] != 0 || m.Data[2] != 0 || m.Data[7] != unix.RTN_UNICAST {
		return nil
	}
	const unusable = unix.RTNH_F_DEAD | unix.RTNH_F_LINKDOWN
	attrs := attributes(m)
	table := uint32(m.Data[4])
	if t := attrs[unix.RTA_TABLE]; len(t) == 4 {
		table = binary.NativeEndian.Uint32(t)
	}
	if table != unix.RT_TABLE_MAIN || binary.NativeEndian.Uint32(m.Data[8:12])&unusable != 0 {
		return nil
	}
	r := route{v6: m.Data[0] == unix.AF_INET6}
	if p := attrs[unix.RTA_PRIORITY]; len(p) == 4 {
		r.metric = binary.NativeEndian.Uint32(p)
	}
	r.source, _ = netip.AddrFromSlice(attrs[unix.RTA_PREFSRC])
	if oif := attrs[unix.RTA_OIF]; len(oif) == 4 {
		r.iface = int(binary.NativeEndian.Uint32(oif))
		return []route{r}
	}
	// struct rtnexthop: its length in two bytes, flags, weight, the interface.
	var hops []route
	for rest := attrs[unix.RTA_MULTIPATH]; len(rest) >= unix.SizeofRtNexthop; {
		size := int(binary.NativeEndian.Uint16(rest))
		if size < unix.SizeofRtNexthop || size > len(rest) {
			break
		}
		if rest[2]&unusable == 0 {
			hop := r
			hop.iface = int(binary.NativeEndian.Uint32(rest[4:8]))
			hops = append(hops, hop)
		}
		rest = rest[min(len(rest), (size+3)&^3):]
	}
	return hops
}

// subscription is a netlink socket that receives changes of addresses, routes and
// links.
type subscription struct {
	file   *os.File
	buffer []byte
}

func watchTables() (watcher, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	// Links too: IPv4 routes over a link that goes down disappear without a
	// message.
	groups := uint32(unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV4_ROUTE |
		unix.RTMGRP_IPV6_ROUTE)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	// The Go runtime polls it, so that Close ends a read.
	return &subscription{file: os.NewFile(uintptr(fd), "netlink"), buffer: make([]byte, 32<<10)}, nil
}

func (s *subscription) Close() error { return s.file.Close() }

func (s *subscription) next(interfaces []int) error {
	for {
		n, err := s.file.Read(s.buffer)
		if errors.Is(err, unix.ENOBUFS) {
			return nil // Messages were lost; any of them may be relevant.
		}
		if err != nil {
			return fmt.Errorf("failed to read network changes: %w", err)
		}
		messages, err := syscall.ParseNetlinkMessage(s.buffer[:n])
		if err != nil || slices.ContainsFunc(messages,
			func(m syscall.NetlinkMessage) bool { return isRelevant(&m, interfaces) }) {
			return nil
		}
	}
}

// isRelevant reports whether a change may concern the node's addresses. The links,
// link-local addresses and routes of each starting pod do not.
func isRelevant(m *syscall.NetlinkMessage, interfaces []int) bool {
	switch m.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return len(m.Data) >= unix.SizeofIfAddrmsg && m.Data[3] == unix.RT_SCOPE_UNIVERSE
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return len(m.Data) >= unix.SizeofRtMsg && m.Data[1] == 0
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return len(m.Data) >= unix.SizeofIfInfomsg &&
			slices.Contains(interfaces, int(int32(binary.NativeEndian.Uint32(m.Data[4:8]))))
	}
	return false
}
