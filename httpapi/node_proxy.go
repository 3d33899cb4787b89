package httpapi

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// kubeletPaths are the first elements of the paths that an API server would reach at the kubelet.
// The APIs are not among them.
var kubeletPaths = map[string]bool{
	"attach": true, "checkpoint": true, "configz": true, "containerLogs": true, "debug": true, "exec": true,
	"healthz": true,
	"livez":   true, "logs": true, "metrics": true, "pods": true, "portForward": true, "readyz": true, "run": true,
	"runningpods": true, "spec": true, "stats": true,
}

// nodeProxy serves nodes/NAME/proxy of the Kubernetes API as an API server does, with the kubelet's
// endpoints of this node. The path is replaced before the table of routes is asked, so that the
// access class, the audit log and the limits are those of the endpoint: a client may do nothing
// there that it may not do without the proxy.
func nodeProxy(node string, next http.Handler) http.Handler {
	prefix := "/api/v1/nodes/" + node + "/proxy/"
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, prefix)
		first, _, _ := strings.Cut(rest, "/")
		// What is not the canonical path is redirected to it by the table.
		if !ok || !kubeletPaths[first] || path.Clean("/"+rest) != strings.TrimSuffix("/"+rest, "/") {
			next.ServeHTTP(w, r)
			return
		}
		u := *r.URL
		u.Path, u.RawPath = "/"+rest, ""
		if r.URL.RawPath != "" {
			raw, ok := strings.CutPrefix(r.URL.RawPath, (&url.URL{Path: prefix}).EscapedPath())
			if !ok {
				next.ServeHTTP(w, r)
				return
			}
			u.RawPath = "/" + raw
		}
		own := r.WithContext(r.Context())
		own.URL = &u
		next.ServeHTTP(w, own)
	})
}
