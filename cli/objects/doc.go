// Package objects lists and watches the objects that the daemon has.
//
// It owns the kinds that can be listed with their short names and table columns, the
// queries for objects by name, namespace and selector, and watches that survive a
// restart of the daemon.
//
// It reads the daemon's Kubernetes API, and podstead's own API where Kubernetes has no
// such object. It never changes anything.
package objects
