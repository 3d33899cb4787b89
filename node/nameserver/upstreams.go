package nameserver

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"
)

const (
	// maxResolvConf limits how much of resolv.conf is read, in bytes.
	maxResolvConf = 64 << 10
	// maxUpstreams is the C library's limit of name servers.
	maxUpstreams = 3
	// upstreamPause is how long a name server that did not respond is asked only after the others.
	upstreamPause = 10 * time.Second
)

// upstreams are the name servers of the node. They are read from resolv.conf when they are
// needed and the file has changed since: a server without queries does nothing.
type upstreams struct {
	mu sync.Mutex
	// path, info and the time of the last change identify what was read.
	path    string
	info    fs.FileInfo
	servers []string
	// failed is when a server did not respond, since its last response.
	failed map[string]time.Time
}

// list returns the addresses of the servers, with port, in the order in which to ask them. The
// addresses of this server itself, to which a query would return, are not among them.
func (u *upstreams) list(path string, own []netip.Addr) ([]string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.read(path); err != nil {
		return nil, err
	}
	var ready, failed []string
	for _, s := range u.servers {
		host, _, _ := net.SplitHostPort(s)
		if a, err := netip.ParseAddr(host); err == nil && slices.Contains(own, a) {
			continue
		}
		if at, ok := u.failed[s]; ok && time.Since(at) < upstreamPause {
			failed = append(failed, s)
		} else {
			ready = append(ready, s)
		}
	}
	return append(ready, failed...), nil
}

// read reads the file if it has changed; mu is held.
func (u *upstreams) read(path string) error {
	if path == "" {
		u.path, u.info, u.servers = "", nil, nil
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			u.path, u.info, u.servers = "", nil, nil
			return nil
		}
		return err
	}
	if u.path == path && u.info != nil && os.SameFile(info, u.info) && info.ModTime().Equal(u.info.ModTime()) &&
		info.Size() == u.info.Size() {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	conf, err := dns.ClientConfigFromReader(io.LimitReader(file, maxResolvConf))
	if err != nil {
		return err
	}
	u.path, u.info, u.servers, u.failed = path, info, nil, map[string]time.Time{}
	for _, server := range conf.Servers {
		if _, err := netip.ParseAddr(server); err == nil && len(u.servers) < maxUpstreams {
			u.servers = append(u.servers, net.JoinHostPort(server, "53"))
		}
	}
	return nil
}

// report records whether a server answered.
func (u *upstreams) report(server string, answered bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if answered {
		delete(u.failed, server)
	} else if u.failed != nil {
		u.failed[server] = time.Now()
	}
}
