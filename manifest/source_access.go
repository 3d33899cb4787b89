package manifest

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/podstead/podstead/internal/fileaccess"
)

// A manifest can take over the host, so that only root should be able to change one.
// What others may change is a warning and not an error, since its pods may run already.

// accessWarning returns one warning about the directory and the files of the source
// that users other than root may change; nil if there are none.
func (s *FileSource) accessWarning() *Fault {
	found := map[string]string{}
	if !s.state.isFile {
		if info, err := os.Stat(s.path); err == nil {
			found[s.path] = fileaccess.Writers(info)
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
	fault := &Fault{Unit: paths[0],
		Problem: "users other than root may change it and so take over this host: " + found[paths[0]],
		Remedy:  "run chown root:root and chmod go-w on it", Warning: true}
	if more := len(paths) - 1; more > 0 {
		fault.Problem += fmt.Sprintf("; so may they change %d more manifests", more)
	}
	return fault
}

const readWithoutTLS = "is read without TLS: anyone on the network in between can change the manifests and so take " +
	"over this host"

// clearTextWarning returns a warning about an http URL of another host, nil for any
// other URL.
func clearTextWarning(unit, address string) *Fault {
	parsed, err := url.Parse(address)
	if err != nil || !strings.EqualFold(parsed.Scheme, "http") || isLoopback(parsed.Hostname()) {
		return nil
	}
	return &Fault{Unit: unit, Problem: readWithoutTLS,
		Remedy: "serve it over https", Warning: true}
}

func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}
