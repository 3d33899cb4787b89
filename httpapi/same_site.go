package httpapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/podstead/podstead/httpapi/apistatus"
)

// sameSite protects a listener without authentication from web pages in a browser that can
// reach it, also through a program that connects the socket with a port. The Host header
// must not be a foreign DNS name, which its owner can point at this address while the
// browser shows their page (DNS rebinding). An Origin header must name the same host.
//
// The kubelet has no such check. TLS listeners need none: their clients authenticate with
// each request, and an API server passes on the Origin of its own clients.
func sameSite(names func() []string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !knownHost(r.Host, names) {
			apistatus.Error(w, r, http.StatusForbidden,
				"the Host header %q is not this node; use an IP address, localhost or the name of the node", r.Host)
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
			apistatus.Error(w, r, http.StatusForbidden,
				"the Origin header %q is not %q: pages of other sites are denied access without TLS", origin, r.Host)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// knownHost reports whether a Host header is an address, localhost, a name without a dot,
// which no public DNS server has records, or one of the given names.
func knownHost(host string, names func() []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if !strings.Contains(name, ".") || strings.HasSuffix(name, ".localhost") {
		return true
	}
	if names == nil {
		return false
	}
	for _, known := range names() {
		if strings.EqualFold(strings.TrimSuffix(known, "."), name) {
			return true
		}
	}
	return false
}

// sameOrigin reports whether a page of an origin has the host and port of a Host header.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, host)
}
