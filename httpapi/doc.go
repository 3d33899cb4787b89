// Package httpapi answers over HTTP what runs and why.
//
// It owns one table of routes, each with its access class, and the listeners: a
// unix socket whose file mode is the permission, a health port on loopback, a
// read-only port, and ports with TLS on which callers prove who they are. Who
// may use what is the package access below it, certificates are pki's, the
// Kubernetes API is kubeapi's, sessions are those of streaming and spdy, and what
// containers printed is read by containerlog.
//
// It reads the small interfaces that it declares here; it never imports
// the supervisor and never changes anything.
package httpapi
