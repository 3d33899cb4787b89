package pod

import (
	"iter"

	v1 "k8s.io/api/core/v1"
)

// ContainerKinds selects lists of containers of a pod. Values can be combined.
type ContainerKinds uint8

// The lists of containers, in the order in which EachContainer visits them.
const (
	InitContainers ContainerKinds = 1 << iota
	RegularContainers
	EphemeralContainers

	// SpecContainers are those of a static pod's manifest.
	SpecContainers = InitContainers | RegularContainers
	AllContainers  = SpecContainers | EphemeralContainers
)

// EachContainer iterates over the containers of the selected lists: init
// containers, then regular, then ephemeral ones. The pointers are into the spec.
func EachContainer(spec *v1.PodSpec, kinds ContainerKinds) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		if kinds&InitContainers != 0 {
			for i := range spec.InitContainers {
				if !yield(&spec.InitContainers[i]) {
					return
				}
			}
		}
		if kinds&RegularContainers != 0 {
			for i := range spec.Containers {
				if !yield(&spec.Containers[i]) {
					return
				}
			}
		}
		if kinds&EphemeralContainers != 0 {
			for i := range spec.EphemeralContainers {
				if !yield((*v1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon)) {
					return
				}
			}
		}
	}
}

// LongRunning iterates over the containers that run until the pod ends: the
// sidecars, then the regular containers. Only these can have probes and hooks.
func LongRunning(spec *v1.PodSpec) iter.Seq[*v1.Container] {
	return func(yield func(*v1.Container) bool) {
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; IsSidecar(c) && !yield(c) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(&spec.Containers[i]) {
				return
			}
		}
	}
}

// FindContainer returns the container of a name among all lists, nil if there
// is none.
func FindContainer(spec *v1.PodSpec, name string) *v1.Container {
	for c := range EachContainer(spec, AllContainers) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// IsSidecar reports whether an init container keeps running next to the regular
// containers: its restartPolicy is Always. Do not call it for a regular
// container, whose own restartPolicy has no such meaning.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
