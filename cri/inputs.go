package cri

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/device"
)

// Inputs are the plain values from which the config of one container is
// generated. The caller has resolved every reference; this package resolves none.
type Inputs struct {
	// Env is in order and already expanded.
	Env []EnvVar
	// Mounts are in the order of the container's volumeMounts, then the daemon's
	// own.
	Mounts []Mount
	// Devices are device nodes of the host, CDIDevices the names of devices that the runtime
	// finds in CDI specifications.
	Devices    []device.Node
	CDIDevices []string
	// Groups are supplemental groups in addition to those of the pod.
	Groups []int64
	// Annotations are added to those of the container, of which none is replaced.
	Annotations map[string]string
	// TerminationMessageHost is the host file for the termination message.
	TerminationMessageHost string
	// Objects is the value of AnnotationObjects; empty omits the annotation.
	Objects string
}

// ErrAwaited is matched by an error of ResolveInputs that an event will end. The
// event triggers a sync of the pod, so retrying earlier is useless.
var ErrAwaited = errors.New("awaited")

// EnvVar is one environment variable.
type EnvVar struct{ Name, Value string }

// Mount is one bind mount, or one mount of an image.
type Mount struct {
	// HostPath is empty for an image.
	HostPath      string
	ContainerPath string
	// Image is mounted in place of a host path; nil for none.
	Image    *ImageMount
	ReadOnly bool
	// RecursiveReadOnly extends ReadOnly to mounts below this one; empty means
	// Disabled.
	RecursiveReadOnly v1.RecursiveReadOnlyMode
	// Relabel gives the path the SELinux label of the pod.
	Relabel     bool
	Propagation v1.MountPropagationMode

	// imageRef is the runtime's reference to the image, once it is present.
	imageRef string
}

// ImageMount is an image, or a directory in it, that is mounted read-only.
type ImageMount struct {
	Reference  string
	PullPolicy v1.PullPolicy
	SubPath    string
}

// SandboxInputs are the plain values, in addition to the pod, from which a
// sandbox's config is generated.
type SandboxInputs struct {
	// CgroupParent is the pod's cgroup; empty leaves it to the runtime.
	CgroupParent string
	// RuntimeHandler is the handler that a runtime class names; empty is the
	// runtime's default.
	RuntimeHandler string
	// Users is the ID range of a pod with hostUsers: false, nil for the host's
	// own IDs.
	Users *UserNamespace
	// Hostname is empty for a pod on the host's network.
	Hostname string
	// DNS is the pod's resolv.conf; the zero value leaves it to the runtime,
	// which copies the host's.
	DNS DNS
}

// Assigned reports which CPUs and which memory of the node containers use. It is asked right before each
// create and resize, because the CPUs that containers share change at any time.
type Assigned interface {
	// CPUs returns the CPUs of a container as the kernel's list, empty for all, and whether they are its own.
	// Such a container has no CPU quota.
	CPUs(uid types.UID, container string) (cpus string, exclusive bool)
	// NUMANodes returns the NUMA nodes from which a container has its memory, as the kernel's list, empty for
	// all.
	NUMANodes(uid types.UID, container string) string
	// Created is called with the CPUs that a container was created with.
	Created(id, cpus string)
}

// DNS is the content of a resolv.conf.
type DNS struct {
	// Servers are addresses, Searches domains, Options such as ndots:5.
	Servers, Searches, Options []string
}
