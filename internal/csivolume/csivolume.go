package csivolume

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Secrets are what a driver needs to stage and publish a volume. They are never stored.
type Secrets struct{ Stage, Publish map[string]string }

// ErrInfeasible is the error of an expansion that a driver refuses for good: the same request never succeeds.
var ErrInfeasible = errors.New("the expansion is infeasible")

// ErrExpanding is the error of an expansion whose driver has not answered yet.
var ErrExpanding = errors.New("the driver has not answered yet")

// Volume is a volume of a CSI driver as one pod uses it. Its fields are what the API of drivers has for a
// volume, and when that is known.
type Volume struct {
	// Driver is the name of the driver, and Handle the ID that the driver has given to the volume.
	Driver, Handle string
	// Pod is the pod, and Name the name of the volume in it.
	Pod  types.UID
	Name string
	// Ephemeral: the volume is declared in the pod and ends with it. It is never staged.
	Ephemeral bool
	ReadOnly  bool
	// Block: the pod has the volume as a block device, without a file system.
	Block bool
	// FSType is the file system type, empty for the driver's default.
	FSType       string
	MountOptions []string
	AccessMode   v1.PersistentVolumeAccessMode
	// Context are the attributes of the volume for the driver. PodContext are those of the pod, which the
	// driver gets when the volume is published, and not when it is staged.
	Context, PodContext map[string]string
	// AttachContext is what the controller that has attached the volume tells the driver; nil if none
	// has attached it.
	AttachContext map[string]string
	// Secrets returns those for the driver; nil if there are none. It is called only before the driver is
	// called: a volume that is published stays so without them.
	Secrets func() (Secrets, error)
	// ExpandSecret returns the secret with which the driver expands the volume; nil if there is none. It is
	// called only before that: a volume is published without it.
	ExpandSecret func() (map[string]string, error)
	// Capacity is what the volume is known to have in bytes when it is published; 0 is not known.
	Capacity int64
	// Prepare completes the volume; nil if it is complete. Like Secrets, and before it, it is called only
	// before the driver is called.
	Prepare func() error
	// Republish: the driver wants to be called again and again while the volume is published.
	Republish bool
	// Group is the fsGroup of the pod, nil without one. A driver that supports it gives the volume to
	// the group; else Own is called with the path of the published volume, unless it is nil.
	Group *int64
	Own   func(path string) error
}
