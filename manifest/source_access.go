package manifest

import (
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
)

// A manifest can take over the host, so that only root should be able to change one.
// What others may change is a warning and not an error, since its pods may run already.

// writersOf says why users other than root may change a file or directory; empty if
// they may not.
func writersOf(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return fmt.Sprintf("it has mode %04o", mode)
	case ok && mode&0o020 != 0 && stat.Gid != 0:
		return fmt.Sprintf("it has mode %04o and group %d", mode, stat.Gid)
	case ok && stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Sprintf("it belongs to user %d", stat.Uid)
	}
	return ""
}

// accessWarning returns one warning about the directory and the files of the source
// that users other than root may change; nil if there are none.
func (s *FileSource) accessWarning() *Fault {
	found := map[string]string{}
	if !s.state.isFile {
		if info, err := os.Stat(s.path); err == nil {
			found[s.path] = writersOf(info)
		}
	}
	for path, unit := range s.units {
		found[path] = unit.writers
	}
	var paths []string
	for path, why := range found {
		if why != "" {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	slices.Sort(paths)
	fault := &Fault{Unit: paths[0], Problem: "users other than root may change it and so take over this host: " + found[paths[0]],
		Remedy: "run chown root:root and chmod go-w on it", Warning: true}
	if more := len(paths) - 1; more > 0 {
		fault.Problem += fmt.Sprintf("; so may they change %d more manifests", more)
	}
	return fault
}

// clearTextWarning returns a warning about an http URL of another host, nil for any
// other URL.
func clearTextWarning(unit, address string) *Fault {
	parsed, err := url.Parse(address)
	if err != nil || !strings.EqualFold(parsed.Scheme, "http") || isLoopback(parsed.Hostname()) {
		return nil
	}
	return &Fault{Unit: unit, Problem: "is read without TLS: anyone on the network in between can change the manifests and so take over this host",
		Remedy: "serve it over https", Warning: true}
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}
