package hostsockets

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// Listener is a process that listens on a port. Process and PID are empty if they could not be found
// out, as by a user who is not root.
type Listener struct {
	Port    podinfo.HostPort
	Process string
	PID     int
}

// String reports that a pod takes the connections of the process, and what to do.
func (l Listener) String() string {
	who := "a process"
	if l.Process != "" {
		who = fmt.Sprintf("process %s (PID %d)", l.Process, l.PID)
	}
	return fmt.Sprintf("hostPort %d (%s on %s) is taken from %s of the host, which listens on it and gets no new "+
		"connections while the pod runs; use another hostPort, or stop the process",
		l.Port.Number, l.Port.Protocol, l.Port.IP, who)
}

// mappers are the processes that listen on host ports for the pods that have them.
var mappers = []string{"docker-proxy", "cri-dockerd", "crio", "conmon"}

// Find returns who listens on the ports, in their order. proc is the mount of the proc file system.
func Find(proc string, ports []podinfo.HostPort) []Listener {
	desired := map[podinfo.HostPort]netip.Addr{}
	for _, p := range ports {
		if addr, err := netip.ParseAddr(p.IP); err == nil {
			desired[p] = addr.Unmap()
		}
	}
	found := map[podinfo.HostPort]string{} // the inode of the socket
	for _, table := range []struct {
		protocol    v1.Protocol
		file, state string
	}{{v1.ProtocolTCP, "tcp", "0A"}, {v1.ProtocolTCP, "tcp6", "0A"}, {v1.ProtocolUDP, "udp", "07"},
		{v1.ProtocolUDP, "udp6", "07"},
	} {
		if !slices.ContainsFunc(ports, func(p podinfo.HostPort) bool { return p.Protocol == table.protocol }) {
			continue
		}
		eachSocket(filepath.Join(proc, "net", table.file), table.state, func(bound netip.AddrPort, inode string) {
			for p, addr := range desired {
				same := bound.Addr() == addr || bound.Addr().IsUnspecified() || addr.IsUnspecified()
				if p.Protocol == table.protocol && int32(bound.Port()) == p.Number && same {
					found[p] = inode
				}
			}
		})
	}
	if len(found) == 0 {
		return nil
	}
	owners := ownersOf(proc, found)
	var listeners []Listener
	for _, p := range ports {
		inode, ok := found[p]
		l := owners[inode]
		if l.Port = p; ok && !slices.Contains(mappers, l.Process) && !slices.Contains(listeners, l) {
			listeners = append(listeners, l)
		}
	}
	return listeners
}

// eachSocket visits the sockets of a table of the kernel in a state, of UDP those without a peer.
func eachSocket(file, state string, visit func(bound netip.AddrPort, inode string)) {
	f, err := os.Open(file)
	if err != nil {
		return // IPv6 may be disabled
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != state || strings.Trim(fields[2], "0:") != "" {
			continue
		}
		if bound, ok := parseAddress(fields[1]); ok {
			visit(bound, fields[9])
		}
	}
}

// parseAddress parses an address of a table: words of 32 bits in the byte order of the machine, in
// hexadecimal, and the port.
func parseAddress(text string) (netip.AddrPort, bool) {
	words, port, ok := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	raw, hexErr := hex.DecodeString(words)
	if !ok || err != nil || hexErr != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}

// ownersOf returns the processes that have the sockets open, by inode.
func ownersOf(proc string, sockets map[podinfo.HostPort]string) map[string]Listener {
	links := map[string]string{}
	for _, inode := range sockets {
		links["socket:["+inode+"]"] = inode
	}
	owners := map[string]Listener{}
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, dir := range processes {
		files, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // it has ended, or this process may not look
		}
		for _, f := range files {
			target, err := os.Readlink(filepath.Join(dir, "fd", f.Name()))
			if inode := links[target]; err == nil && inode != "" && owners[inode].PID == 0 {
				pid, _ := strconv.Atoi(filepath.Base(dir)) // the glob matches digits
				owners[inode] = Listener{Process: command(dir), PID: pid}
			}
		}
		if len(owners) == len(links) {
			break
		}
	}
	return owners
}

// command returns the name of a process, at most 15 characters.
func command(dir string) string {
	f, err := os.Open(filepath.Join(dir, "comm"))
	if err != nil {
		return ""
	}
	defer f.Close()
	line := bufio.NewScanner(f)
	line.Scan()
	return line.Text()
}
