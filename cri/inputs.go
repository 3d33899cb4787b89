package cri

import (
	"errors"

	v1 "k8s.io/api/core/v1"
)

// Inputs are the plain values from which the config of one container is made.
// Whoever fills them has resolved every reference; this package resolves none.
type Inputs struct {
	// Env in order, already expanded.
	Env []EnvVar
	// Mounts in the order of the container's volumeMounts, then the daemon's own.
	Mounts []Mount
	// TerminationMessageHost is the host file for the termination message.
	TerminationMessageHost string
	// Objects is what AnnotationObjects is to hold; empty leaves that out.
	Objects string
}

// ErrAwaited is the kind of an error of Inputs that an event will end, which
// makes the pod be looked at again: trying earlier is of no use.
var ErrAwaited = errors.New("awaited")

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Mount is one bind mount, or one of an image.
type Mount struct {
	// HostPath is empty for an image.
	HostPath      string
	ContainerPath string
	// Image is what is mounted in place of a path; nil for none.
	Image    *ImageMount
	ReadOnly bool
	// RecursiveReadOnly extends ReadOnly to what is mounted below; empty is
	// Disabled.
	RecursiveReadOnly v1.RecursiveReadOnlyMode
	// Relabel gives the path the SELinux label of the pod.
	Relabel     bool
	Propagation v1.MountPropagationMode

	// imageRef is the runtime's name of the image, once it is there.
	imageRef string
}

// ImageMount is an image, or a folder in it, that is mounted read-only.
type ImageMount struct {
	Reference  string
	PullPolicy v1.PullPolicy
	SubPath    string
}

// SandboxInputs are the plain values from which a sandbox's config is made
// besides the pod.
type SandboxInputs struct {
	// CgroupParent is the pod's cgroup; empty leaves it to the runtime.
	CgroupParent string
	// RuntimeHandler is the one that a runtime class names; empty is the
	// runtime's default.
	RuntimeHandler string
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
