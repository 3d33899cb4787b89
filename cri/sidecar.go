package cri

import v1 "k8s.io/api/core/v1"

// IsSidecar reports whether an init container is one that goes on running
// beside the regular containers: its restartPolicy is Always. It must not be
// asked of a regular container, whose restartPolicy means no more than it says.
func IsSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}
