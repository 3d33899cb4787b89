package cri

import v1 "k8s.io/api/core/v1"

// Inputs are the plain values from which the config of one container is made.
// Whoever fills them has resolved every reference; this package resolves none.
type Inputs struct {
	// Env in order, already expanded.
	Env []EnvVar
	// Mounts in the order of the container's volumeMounts, then the daemon's own.
	Mounts []Mount
	// TerminationMessageHost is the host file for the termination message.
	TerminationMessageHost string
}

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Mount is one bind mount.
type Mount struct {
	HostPath      string
	ContainerPath string
	ReadOnly      bool
	Propagation   v1.MountPropagationMode
}

// SandboxInputs are the plain values from which a sandbox's config is made
// besides the pod.
type SandboxInputs struct {
	// CgroupParent is the pod's cgroup; empty leaves it to the runtime.
	CgroupParent string
	// Users is the range of a pod with hostUsers: false, nil for the host's own.
	Users *UserNamespace
	// Hostname is empty for a pod on the host's network.
	Hostname string
	// DNS is the pod's resolv.conf; the zero value leaves it to the runtime,
	// which copies the host's.
	DNS DNS
}

// DNS is what a resolv.conf says.
type DNS struct {
	// Servers are addresses, Searches domains, Options such as ndots:5.
	Servers, Searches, Options []string
}
