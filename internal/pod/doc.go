// Package pod reports facts about a v1.Pod that need nothing but the pod:
// its full name and source, QoS class, priority, whether a container is a
// sidecar, the resources that it requests, whether a node matches a selector, and
// iteration over its containers.
//
// It owns those definitions, so that each exists once. It reads only the pod
// that it is given, never changes it, and imports nothing of this project.
//
// Most callers have a variable named pod, so import it as podinfo.
package pod
