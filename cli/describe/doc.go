// Package describe writes the descriptions of podstead describe.
//
// It owns the layout of the description of a pod, a node and any other object.
//
// It reads the objects, their events and the state of their manifests through the
// client. It never changes anything.
package describe
