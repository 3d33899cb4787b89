package preflight

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ports checks that the ports are free. It opens none of them, since a running daemon would
// be affected.
func ports(h *Host, s *Settings) (list []Finding) {
	for _, purpose := range slices.Sorted(maps.Keys(s.Ports)) {
		address := s.Ports[purpose]
		want, err := netip.ParseAddrPort(address)
		if err != nil || want.Port() == 0 {
			continue
		}
		inode, taken := h.listener(want)
		if !taken {
			list = append(list, ok("ports", "%s is free (%s)", address, purpose)...)
			continue
		}
		pid, name := h.socketOwner(inode)
		if s.Running != 0 && pid == s.Running {
			list = append(list, ok("ports", "%s is used by podstead (%s)", address, purpose)...)
			continue
		}
		owner := "another process"
		if pid != 0 {
			owner = fmt.Sprintf("%s (pid %d)", name, pid)
		}
		list = append(list, fail("ports", "ss -ltnp 'sport = :"+strconv.Itoa(int(want.Port()))+"'",
			"%s is in use by %s, but podstead requires it (%s): stop that process or configure another port", address, owner,
			purpose)...)
	}
	return list
}

// listening is the state of a socket in /proc/net/tcp.
const listening = "0A"

// listener returns the inode of the socket that listens on an address, or on its port on all
// addresses.
func (h *Host) listener(want netip.AddrPort) (inode string, taken bool) {
	for _, file := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for _, l := range strings.Split(h.text(file), "\n") {
			fields := strings.Fields(l)
			if len(fields) < 10 || fields[3] != listening {
				continue
			}
			has, ok := parseAddress(fields[1])
			if !ok || has.Port() != want.Port() {
				continue
			}
			a, b := has.Addr().Unmap(), want.Addr().Unmap()
			if a == b || a.IsUnspecified() || b.IsUnspecified() {
				return fields[9], true
			}
		}
	}
	return "", false
}

// parseAddress parses an address in /proc/net/tcp: hexadecimal words in the host's byte order,
// which is little-endian on all supported platforms except s390x.
func parseAddress(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(host)
	number, errPort := strconv.ParseUint(port, 16, 16)
	if err != nil || errPort != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(net.IP(raw))
	return netip.AddrPortFrom(addr, uint16(number)), ok
}

// socketOwner returns the process that has a socket open, 0 if it is unknown.
func (h *Host) socketOwner(inode string) (pid int, name string) {
	processes, _ := os.ReadDir(h.path("proc"))
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		files, _ := os.ReadDir(h.path(filepath.Join("proc", p.Name(), "fd")))
		for _, f := range files {
			if target, _ := os.Readlink(h.path(filepath.Join("proc", p.Name(), "fd", f.Name()))); target == "socket:["+inode+
				"]" {
				return pid, h.text(filepath.Join("proc", p.Name(), "comm"))
			}
		}
	}
	return 0, ""
}
