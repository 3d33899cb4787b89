// Package httpapi is the HTTP API of the daemon: the kubelet's endpoints, a part of
// the Kubernetes API, and podstead's own endpoints under /podstead/v1.
//
// It owns one table of routes with the access class of each (routes.go), and the
// listeners: a unix socket whose file mode is the permission, a health port on
// loopback, a read-only port, and TLS ports that authenticate their clients. Its
// subpackages own the rest: access authenticates and authorizes, pki keeps the
// certificates, kubeapi serves the Kubernetes API, streaming carries exec, attach and
// port forwarding, containerlog reads container logs, and metrics renders what
// Prometheus scrapes.
//
// It reads snapshots through the small interfaces that it declares. Requests of the
// classes exec and admin also change the node through them: they run commands in
// containers, restart pods, pull, load and prune images, remove volumes, write
// checkpoints, issue and revoke kubeconfigs, and leave the cluster. The package itself
// writes only the files of Remote.Dir and the sockets, decides nothing about pods, and
// never imports the supervisor.
package httpapi
