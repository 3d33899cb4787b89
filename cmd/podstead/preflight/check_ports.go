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

// ports: none is looked at by opening it, which a running daemon would notice.
func ports(h *Host, s *Settings) (list []Finding) {
	for _, what := range slices.Sorted(maps.Keys(s.Ports)) {
		address := s.Ports[what]
		want, err := netip.ParseAddrPort(address)
		if err != nil || want.Port() == 0 {
			continue
		}
		inode, taken := h.listener(want)
		if !taken {
			list = append(list, ok("ports", "%s is free for %s", address, what)...)
			continue
		}
		pid, name := h.holder(inode)
		if s.Running != 0 && pid == s.Running {
			list = append(list, ok("ports", "podstead itself has %s, for %s", address, what)...)
			continue
		}
		who := "another process"
		if pid != 0 {
			who = fmt.Sprintf("%s (pid %d)", name, pid)
		}
		list = append(list, fail("ports", "ss -ltnp 'sport = :"+strconv.Itoa(int(want.Port()))+"'",
			"%s has %s, which podstead wants for %s; end it, or give podstead another port", who, address, what)...)
	}
	return list
}

// listening is the state of a socket in /proc/net/tcp.
const listening = "0A"

// listener is the inode of the socket that listens on an address, or on all
// addresses with that port.
func (h *Host) listener(want netip.AddrPort) (inode string, taken bool) {
	for _, file := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		for _, l := range strings.Split(h.line(file), "\n") {
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

// parseAddress reads an address as the kernel writes it there: words of the
// machine's byte order in hexadecimal, of which all that Go runs on here are
// little-endian but s390x.
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

// holder is the process that has a socket, 0 if it cannot be told.
func (h *Host) holder(inode string) (pid int, name string) {
	processes, _ := os.ReadDir(h.path("proc"))
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		files, _ := os.ReadDir(h.path(filepath.Join("proc", p.Name(), "fd")))
		for _, f := range files {
			if target, _ := os.Readlink(h.path(filepath.Join("proc", p.Name(), "fd", f.Name()))); target == "socket:["+inode+"]" {
				return pid, h.line(filepath.Join("proc", p.Name(), "comm"))
			}
		}
	}
	return 0, ""
}
