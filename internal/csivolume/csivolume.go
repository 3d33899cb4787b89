package csivolume

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/fsgroup"
)

// Secrets are what a driver needs to stage, publish and expand a volume; nil if it needs none. They are never stored.
type Secrets struct{ Stage, Publish, Expand map[string]string }

// ErrInfeasible is the error of an expansion that a driver refuses for good: the same request never succeeds.
var ErrInfeasible = errors.New("the expansion is infeasible")

// ErrExpanding is the error of an expansion whose driver has not responded yet.
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
	Secrets       Secrets
	// PublishBlocked is why the driver cannot be called to stage and publish the volume, such as a Secret that is
	// missing or an attachment that is awaited; nil if it can. A volume that is published stays so.
	// ExpandBlocked is the same for an expansion.
	PublishBlocked, ExpandBlocked error
	// Capacity is what the volume is known to have in bytes when it is published; 0 is not known.
	Capacity int64
	// Republish: the driver wants to be called again and again while the volume is published.
	Republish bool
	// Group is the fsGroup of the pod. A driver that supports it gives the volume to the group; else the
	// files are given to it after each call if SetGroup is set.
	Group    fsgroup.Group
	SetGroup bool
}
